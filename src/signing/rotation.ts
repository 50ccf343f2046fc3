import { Buffer } from "node:buffer";
import { parseHmac } from "./hmac-settings.ts";
import { isHmacAlgorithm } from "./jwt-algorithms.ts";
import { parseJwt } from "./jwt-settings.ts";
import { effectiveConfig } from "./presets.ts";
import type { SecretEncoding } from "./strict-bytes.ts";
import type { VerificationSettings } from "../domain/verification.ts";

export type RotatedSecret = { readonly ok: true; readonly secret: string } | NotSupported;

interface NotSupported {
  readonly ok: false;
  readonly message: string;
}

type RotationSupport =
  | { readonly ok: true; readonly encoding: SecretEncoding; readonly prefix: string }
  | NotSupported;

type RotationSettings = Omit<VerificationSettings, "secret">;

/** As long as the digest of the strongest HMAC in use, since a key should be no shorter (RFC 2104 §3). */
const NEW_SECRET_BYTES = 32;
const NEW_JWT_SECRET_BYTES = 64;

/** Returns whether the relay can make this endpoint's next secret by itself, and in which form. */
function rotationSupportOf(settings: RotationSettings): RotationSupport {
  const { method } = settings;
  const config = effectiveConfig(settings);
  switch (method) {
    case "hmac_sha256":
    case "hmac_sha1": {
      const parsed = parseHmac(config);
      return parsed.ok
        ? {
            ok: true,
            encoding: parsed.settings.secretEncoding,
            prefix: parsed.settings.secretPrefix,
          }
        : { ok: true, encoding: "utf8", prefix: "" };
    }
    case "bearer_token":
    case "basic_auth":
      return { ok: true, encoding: "utf8", prefix: "" };
    case "jwt": {
      const parsed = parseJwt(config);
      if (!parsed.ok) return { ok: true, encoding: "utf8", prefix: "" };
      return parsed.settings.algorithms.every(isHmacAlgorithm)
        ? { ok: true, encoding: parsed.settings.secretEncoding, prefix: "" }
        : refuse("the sender holds the private key; update verification_config with its new one");
    }
    case "twilio_signature":
      return refuse("Twilio issues the auth token; update the endpoint's secret with the new one");
    case "ip_allowlist":
      return refuse("ip_allowlist has no secret; update verification_config.allowed_ips");
    case "none":
      return refuse("none has no secret; choose another verification_method first");
    default:
      return method satisfies never;
  }
}

/** Makes a new secret in the form the endpoint's configuration expects, or says what to do instead where rotation is not supported. */
export function rotateSecret(
  settings: RotationSettings,
  randomBytes: (sizeBytes: number) => Uint8Array,
): RotatedSecret {
  const support = rotationSupportOf(settings);
  if (!support.ok) return support;
  const sizeBytes = settings.method === "jwt" ? NEW_JWT_SECRET_BYTES : NEW_SECRET_BYTES;
  // As text, base64url is safe in headers, shells and configuration files.
  const encoding = support.encoding === "utf8" ? "base64url" : support.encoding;
  const text = Buffer.from(randomBytes(sizeBytes)).toString(encoding);
  return { ok: true, secret: support.prefix + text };
}

function refuse(message: string): NotSupported {
  return { ok: false, message };
}
