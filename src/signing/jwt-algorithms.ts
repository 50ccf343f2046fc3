import { createHmac, constants, verify } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { equalDigests } from "./constant-time.ts";

export const HMAC_ALGORITHMS = ["HS256", "HS384", "HS512"] as const;
export type HmacJwtAlgorithm = (typeof HMAC_ALGORITHMS)[number];

export const ASYMMETRIC_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
] as const;
export type AsymmetricJwtAlgorithm = (typeof ASYMMETRIC_ALGORITHMS)[number];
export type JwtAlgorithm = HmacJwtAlgorithm | AsymmetricJwtAlgorithm;

export function isHmacAlgorithm(algorithm: JwtAlgorithm): algorithm is HmacJwtAlgorithm {
  return algorithm.startsWith("HS");
}

const CURVES: Readonly<Record<"ES256" | "ES384" | "ES512", string>> = {
  ES256: "prime256v1",
  ES384: "secp384r1",
  ES512: "secp521r1",
};

/** Returns whether a key is of the algorithm's type (RFC 7518 §3); ES256, ES384 and ES512 take one curve each. */
export function fitsAlgorithm(key: KeyObject, algorithm: AsymmetricJwtAlgorithm): boolean {
  const type = key.asymmetricKeyType;
  switch (algorithm) {
    case "RS256":
    case "RS384":
    case "RS512":
      return type === "rsa";
    case "PS256":
    case "PS384":
    case "PS512":
      return type === "rsa" || type === "rsa-pss";
    case "ES256":
    case "ES384":
    case "ES512":
      return type === "ec" && key.asymmetricKeyDetails?.namedCurve === CURVES[algorithm];
    case "EdDSA":
      return type === "ed25519" || type === "ed448";
    default:
      return algorithm satisfies never;
  }
}

/** Verifies an HMAC signature (RFC 7518 §3.2) in the same time wherever the digests differ. */
export function verifyHmacJwt(
  algorithm: HmacJwtAlgorithm,
  key: Uint8Array,
  input: Uint8Array,
  signature: Uint8Array,
): boolean {
  const hash = `sha${algorithm.slice(2)}`;
  return equalDigests(signature, createHmac(hash, key).update(input).digest());
}

/**
 * Verifies a public-key signature (RFC 7518 §3.3–3.5, RFC 8037). Returns false, and never throws, whatever bytes the
 * signature has.
 */
export function verifyAsymmetricJwt(
  algorithm: AsymmetricJwtAlgorithm,
  key: KeyObject,
  input: Uint8Array,
  signature: Uint8Array,
): boolean {
  const hash = algorithm === "EdDSA" ? null : `sha${algorithm.slice(2)}`;
  try {
    return verify(hash, input, { key, ...paddingOf(algorithm) }, signature);
  } catch {
    return false;
  }
}

function paddingOf(algorithm: AsymmetricJwtAlgorithm): object {
  if (algorithm.startsWith("RS")) return { padding: constants.RSA_PKCS1_PADDING };
  if (algorithm.startsWith("PS")) {
    return {
      padding: constants.RSA_PKCS1_PSS_PADDING,
      saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
    };
  }
  // JWS carries r and s side by side, not in DER (RFC 7518 §3.4).
  return algorithm.startsWith("ES") ? { dsaEncoding: "ieee-p1363" } : {};
}
