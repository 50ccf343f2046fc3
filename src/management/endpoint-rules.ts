import { RelayError } from "../domain/errors.ts";
import { presetOf } from "../signing/presets.ts";
import { validateVerificationConfig } from "../signing/verification-config.ts";
import type { VerificationSettings } from "../domain/verification.ts";
import type { EndpointInput } from "./management.ts";

type VerificationInput = Partial<
  Pick<EndpointInput, "provider" | "secret" | "verificationMethod" | "verificationConfig">
>;

/**
 * Decides how an endpoint verifies after a create (`current` null) or a PATCH.
 *
 * A known provider without a method uses its own scheme; `custom` must name a method. A PATCH that changes the provider
 * to a known one and names no method takes that provider's scheme; one that repeats what is already set changes
 * nothing. Settings belong to a scheme: when a PATCH changes the scheme without new settings, the old ones stay only if
 * they fit and both methods were chosen explicitly.
 * @throws {RelayError} `validation_error` with the field's name as in the API
 */
export function decideVerification(
  current: VerificationSettings | null,
  input: VerificationInput,
): VerificationSettings {
  const provider = input.provider ?? current?.provider;
  if (provider === undefined) throw invalid("provider", "is required");
  const { method, methodIsExplicit } = chooseScheme(current, input, provider);
  const secret = input.secret ?? current?.secret ?? null;
  if (provider !== "custom" && secret === null)
    throw invalid(
      "secret",
      `is required for ${provider}: it is the signing secret that ${provider} shows for this webhook (where it shows that only once it knows the URL, give any text now, and the secret by PATCH)`,
    );
  const settings = { provider, method, methodIsExplicit, secret };

  if (input.verificationConfig !== undefined)
    return { ...settings, config: validate(settings, input.verificationConfig) };
  if (current === null) return { ...settings, config: validate(settings, {}) };
  const isSameScheme =
    current.method === method &&
    current.methodIsExplicit === methodIsExplicit &&
    (methodIsExplicit || current.provider === provider);
  if (isSameScheme) return { ...settings, config: validate(settings, current.config) };
  const keeps =
    current.methodIsExplicit &&
    methodIsExplicit &&
    validateVerificationConfig({ ...settings, config: current.config }).ok;
  return { ...settings, config: validate(settings, keeps ? current.config : {}) };
}

function chooseScheme(
  current: VerificationSettings | null,
  input: VerificationInput,
  provider: VerificationSettings["provider"],
): Pick<VerificationSettings, "method" | "methodIsExplicit"> {
  const isSameProvider = current !== null && current.provider === provider;
  // A client that reads an endpoint, changes it and writes it back names the method that its provider implied.
  const isSameMethod = isSameProvider && current.method === input.verificationMethod;
  if (isSameMethod && input.verificationConfig === undefined) return current;
  if (input.verificationMethod !== undefined)
    return { method: input.verificationMethod, methodIsExplicit: true };
  if (isSameProvider) return current;
  const preset = presetOf(provider);
  if (preset !== null) return { method: preset.method, methodIsExplicit: false };
  if (current?.methodIsExplicit === true) return current;
  throw invalid(
    "verification_method",
    'is required for custom; choose "none" to accept unsigned requests',
  );
}

function validate(
  settings: Omit<VerificationSettings, "config">,
  config: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const verdict = validateVerificationConfig({ ...settings, config });
  if (!verdict.ok) throw invalid(verdict.field, verdict.message);
  return verdict.config;
}

function invalid(field: string, message: string): RelayError {
  return new RelayError("validation_error", `${field}: ${message}`, { field });
}
