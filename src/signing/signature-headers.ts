import type { Provider } from "../domain/enums.ts";
import { CREDENTIAL_HEADERS } from "../domain/redacted.ts";
import { parseHmac } from "./hmac-settings.ts";
import { effectiveConfig } from "./presets.ts";
import { parseTwilio, SIGNATURE_SETTINGS_HEADER } from "./twilio.ts";
import type { VerificationSettings } from "../domain/verification.ts";

/**
 * Signature headers that a provider sends for older receivers in addition to the one its preset checks.
 * https://docs.github.com/webhooks/webhook-events-and-payloads#delivery-headers
 */
const OLDER_HEADERS: Partial<Record<Provider, readonly string[]>> = { github: ["X-Hub-Signature"] };

/**
 * Returns the lower-case names of the headers that `forward_original_signature` passes on: the provider's signature
 * headers and those of the signed timestamp and id. Credentials (bearer, basic, jwt) are secrets, not signatures of the
 * body, and are never forwarded.
 */
export function signatureHeadersOf(
  settings: Omit<VerificationSettings, "secret">,
): readonly string[] {
  const { provider, method, methodIsExplicit } = settings;
  const config = effectiveConfig(settings);
  switch (method) {
    case "hmac_sha256":
    case "hmac_sha1": {
      const parsed = parseHmac(config);
      if (!parsed.ok) return [];
      const { headers, timestampHeader, idHeader } = parsed.settings;
      const older = methodIsExplicit ? [] : (OLDER_HEADERS[provider] ?? []);
      return lowerNames([...headers, ...older, timestampHeader, idHeader]);
    }
    case "twilio_signature": {
      const parsed = parseTwilio(config);
      return parsed.ok ? lowerNames([parsed.settings.header, SIGNATURE_SETTINGS_HEADER]) : [];
    }
    case "bearer_token":
    case "basic_auth":
    case "jwt":
    case "ip_allowlist":
    case "none":
      return [];
    default:
      return method satisfies never;
  }
}

/** Leaves out credential headers: `Authorization` stays a credential even when configured as a signature header. */
function lowerNames(names: readonly (string | null)[]): string[] {
  const lower = names.filter((name) => name !== null).map((name) => name.toLowerCase());
  return [...new Set(lower)].filter((name) => !CREDENTIAL_HEADERS.has(name));
}
