import type { Buffer } from "node:buffer";
import type { VerificationResult } from "../domain/verification.ts";
import { decodeSecret } from "./strict-bytes.ts";
import type { SecretEncoding } from "./strict-bytes.ts";
import { refuse } from "./verdict.ts";

export type KeyMaterial =
  | { readonly ok: true; readonly key: Buffer }
  | { readonly ok: false; readonly refusal: VerificationResult };

const PUBLIC_KEY = /-----BEGIN (?:[A-Z]+ )?(?:PUBLIC KEY|CERTIFICATE)-----/;

/**
 * Returns whether a secret is a public key in PEM (RFC 7468), which anybody may have, so that it keeps nothing secret (RFC 8725 §3.1).
 */
export function isPublicKey(secret: string): boolean {
  return PUBLIC_KEY.test(secret);
}

/** Reads the key that a secret stands for. Anybody can make an HMAC with an empty key, so an empty one fails closed. */
export function readKey(
  secret: string | null,
  encoding: SecretEncoding,
  optionalPrefix: string,
): KeyMaterial {
  if (secret === null || secret === "") return { ok: false, refusal: missingSecret() };
  if (isPublicKey(secret)) {
    const message =
      "The endpoint's secret is a public key, with which anybody could sign: set its secret to the one that only the sender has.";
    return { ok: false, refusal: refuse("malformed_secret", message) };
  }
  const text =
    optionalPrefix !== "" && secret.startsWith(optionalPrefix)
      ? secret.slice(optionalPrefix.length)
      : secret;
  const key = decodeSecret(text, encoding);
  if (key === null) {
    const message = `The endpoint's secret is not ${encoding}: store the secret as the provider shows it, or set verification_config.secret_encoding.`;
    return { ok: false, refusal: refuse("malformed_secret", message) };
  }
  return key.byteLength === 0 ? { ok: false, refusal: missingSecret() } : { ok: true, key };
}

export function missingSecret(): VerificationResult {
  return refuse(
    "missing_secret",
    "The endpoint has no secret: set its secret to the one the provider signs with.",
  );
}
