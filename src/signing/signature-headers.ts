import type { Provider, VerificationMethod } from "../domain/enums.ts";
import { parseHmac } from "./hmac-settings.ts";
import { effectiveConfig } from "./presets.ts";
import type { Config } from "./settings-reader.ts";
import { parseTwilio } from "./twilio.ts";

/**
 * Signature headers that a provider sends for older receivers beside the one that its preset checks.
 * https://docs.github.com/webhooks/webhook-events-and-payloads#delivery-headers
 */
const OLDER_HEADERS: Partial<Record<Provider, readonly string[]>> = { github: ["X-Hub-Signature"] };

/**
 * Lower-case names of the provider's own signature headers, with those of the timestamp and the id that were signed:
 * what `forward_original_signature` passes on. Credentials (bearer, basic, jwt) are secrets and not
 * signatures of the body: never forwarded.
 */
export function signatureHeadersOf(
  provider: Provider,
  method: VerificationMethod,
  methodIsExplicit: boolean,
  config: Config,
): readonly string[] {
  const effective = effectiveConfig(provider, method, methodIsExplicit, config);
  switch (method) {
    case "hmac_sha256":
    case "hmac_sha1": {
      const parsed = parseHmac(effective);
      if (!parsed.ok) return [];
      const { headers, timestampHeader, idHeader } = parsed.settings;
      const older = methodIsExplicit ? [] : (OLDER_HEADERS[provider] ?? []);
      return lowerNames([...headers, ...older, timestampHeader, idHeader]);
    }
    case "twilio_signature": {
      const parsed = parseTwilio(effective);
      return parsed.ok ? lowerNames([parsed.settings.header]) : [];
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

/** An `Authorization` header that somebody configured as a signature header stays a credential. */
function lowerNames(names: readonly (string | null)[]): string[] {
  const lower = names.filter((name) => name !== null).map((name) => name.toLowerCase());
  return [...new Set(lower)].filter((name) => !CREDENTIAL_HEADERS.has(name));
}

const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  "authorization",
  "proxy-authorization",
  "cookie",
]);
