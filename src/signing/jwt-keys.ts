import { createPublicKey } from "node:crypto";
import type { JsonWebKey, KeyObject } from "node:crypto";
import { fitsAlgorithm } from "./jwt-algorithms.ts";
import type { AsymmetricJwtAlgorithm } from "./jwt-algorithms.ts";
import { isRecord } from "../domain/is-record.ts";

/** A public key that may verify tokens. It is a KeyObject and so can never become an HMAC key. */
export interface VerificationKey {
  readonly key: KeyObject;
  /** Set only for keys from a JWKS. */
  readonly keyId: string | null;
  readonly algorithm: string | null;
}

export type ImportedKeys =
  | { readonly ok: true; readonly keys: readonly VerificationKey[] }
  | { readonly ok: false; readonly message: string };

const MAX_JWKS_KEYS = 100;
/** Limit per token. A forger leaves the key id out: refusing a token took a thread 0.2 s with a hundred P-521 keys. */
const MAX_TRIED_KEYS = 8;
/** RFC 7518 §3.3: "A key of size 2048 bits or larger MUST be used". */
const MIN_RSA_BITS = 2048;
/**
 * A public exponent as long as the modulus makes a check a hundred times as expensive (6 ms at 3072 bits), and a
 * forged token is checked with up to MAX_TRIED_KEYS keys. No real key needs more than these: most exponents are 65537,
 * and BoringSSL, too, takes up to 33 bits.
 */
const MAX_RSA_BITS = 8192;
const MAX_RSA_EXPONENT = 2n ** 33n;
/**
 * Limit for a public key in DER, well above the largest accepted (1.1 KB). Node converts the exponent to a BigInt, in
 * time quadratic in its length: one of 140 KB held the process for eighty seconds.
 */
const MAX_KEY_BYTES = 2_048;

/** Imports one public key or certificate in PEM. */
export function importPem(pem: string): ImportedKeys {
  if (pem.includes("PRIVATE KEY")) {
    return { ok: false, message: "is a private key: store the public one only" };
  }
  let key: KeyObject;
  try {
    key = createPublicKey(pem);
  } catch {
    return { ok: false, message: "must be a public key in PEM (-----BEGIN PUBLIC KEY-----)" };
  }
  const unfitness = unfitnessOf(key);
  if (unfitness !== null) return { ok: false, message: unfitness };
  return { ok: true, keys: [{ key, keyId: null, algorithm: null }] };
}

/**
 * Imports a JWK set (RFC 7517 §5). Keys of unknown types, encryption keys and secret keys are skipped, as the RFC says;
 * private keys are refused.
 */
export function importJwks(jwks: unknown): ImportedKeys {
  const list = isRecord(jwks) ? jwks["keys"] : undefined;
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_JWKS_KEYS) {
    const message = `must be a JWK set: {"keys": [...]} with 1 to ${MAX_JWKS_KEYS} keys`;
    return { ok: false, message };
  }
  const keys: VerificationKey[] = [];
  for (const jwk of list as readonly unknown[]) {
    if (!isRecord(jwk)) return { ok: false, message: "holds a key that is not an object" };
    if (jwk["kty"] !== "oct" && jwk["d"] !== undefined) {
      return { ok: false, message: "holds a private key: store public keys only" };
    }
    const key = isForSignatures(jwk) ? importJwk(jwk) : null;
    if (key !== null) keys.push(key);
  }
  return keys.length === 0
    ? { ok: false, message: "holds no usable public key (RSA of 2048 to 8192 bits, EC, OKP)" }
    : { ok: true, keys };
}

/** Members of a public key that `importJwks` reads, apart from those that state its purpose. */
const READ_MEMBERS = ["kty", "crv", "x", "y", "n", "e", "kid", "alg"] as const;

/**
 * Reduces a checked key set to what `importJwks` reads: the rest is up to whoever wrote it and, as small objects, takes
 * twenty times the memory of its text.
 */
export function trimJwks(jwks: unknown): unknown {
  const list = isRecord(jwks) ? jwks["keys"] : undefined;
  if (!Array.isArray(list)) return jwks;
  const keys = (list as readonly unknown[]).filter(isRecord).filter(isForSignatures);
  return {
    keys: keys.map((jwk) =>
      Object.fromEntries(
        READ_MEMBERS.flatMap((name) => (typeof jwk[name] === "string" ? [[name, jwk[name]]] : [])),
      ),
    ),
  };
}

function importJwk(jwk: Readonly<Record<string, unknown>>): VerificationKey | null {
  if (jwk["kty"] !== "RSA" && jwk["kty"] !== "EC" && jwk["kty"] !== "OKP") return null;
  try {
    const key = createPublicKey({ key: jwk as JsonWebKey, format: "jwk" });
    if (unfitnessOf(key) !== null) return null;
    return { key, keyId: textOrNull(jwk["kid"]), algorithm: textOrNull(jwk["alg"]) };
  } catch {
    return null;
  }
}

function isForSignatures(jwk: Readonly<Record<string, unknown>>): boolean {
  const operations = jwk["key_ops"];
  if (Array.isArray(operations) && !operations.includes("verify")) return false;
  return jwk["use"] === undefined || jwk["use"] === "sig";
}

/** Returns why a key is refused, or null when it is accepted. */
function unfitnessOf(key: KeyObject): string | null {
  const { length } = key.export({ type: "spki", format: "der" });
  if (length > MAX_KEY_BYTES) return `has ${length} bytes: at most ${MAX_KEY_BYTES} are taken`;
  const { modulusLength: bits, publicExponent } = key.asymmetricKeyDetails ?? {};
  if (bits === undefined) return null;
  if (bits < MIN_RSA_BITS)
    return `is an RSA key of ${bits} bits: at least ${MIN_RSA_BITS} are needed`;
  if (bits > MAX_RSA_BITS)
    return `is an RSA key of ${bits} bits: at most ${MAX_RSA_BITS} are taken`;
  return publicExponent !== undefined && publicExponent >= MAX_RSA_EXPONENT
    ? "is an RSA key whose public exponent has more than 33 bits"
    : null;
}

export type KeySelection =
  | { readonly kind: "keys"; readonly keys: readonly KeyObject[] }
  | { readonly kind: "unknown_key_id" }
  /** More keys fit than are tried. */
  | { readonly kind: "too_many_keys"; readonly count: number }
  | { readonly kind: "no_suitable_key" };

/**
 * Selects the keys that may have made a token: those of the algorithm's type and, when the token names a key, with that
 * id. A key without an id fits every id, since an id is only a hint (RFC 7515 §4.1.4).
 */
export function selectKeys(
  keys: readonly VerificationKey[],
  algorithm: AsymmetricJwtAlgorithm,
  keyId: string | null,
): KeySelection {
  const named = keys.filter((key) => keyId === null || key.keyId === null || key.keyId === keyId);
  if (named.length === 0) return { kind: "unknown_key_id" };
  const fitting = named.filter(
    ({ key, algorithm: only }) =>
      fitsAlgorithm(key, algorithm) && (only === null || isSameAlgorithm(only, algorithm)),
  );
  if (fitting.length === 0) return { kind: "no_suitable_key" };
  return fitting.length > MAX_TRIED_KEYS
    ? { kind: "too_many_keys", count: fitting.length }
    : { kind: "keys", keys: fitting.map(({ key }) => key) };
}

/** Compares algorithms; a key may name EdDSA by its curve, too (RFC 9864). */
function isSameAlgorithm(ofKey: string, algorithm: AsymmetricJwtAlgorithm): boolean {
  return (
    ofKey === algorithm || (algorithm === "EdDSA" && (ofKey === "Ed25519" || ofKey === "Ed448"))
  );
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
