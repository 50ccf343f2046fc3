import { Buffer } from "node:buffer";
import { equalDigests } from "./constant-time.ts";
import { KeyedHash, makeScratch } from "./keyed-hash.ts";
import { parseTemplate } from "./signed-payload.ts";
import { decodeSecret, decodeStrict } from "./strict-bytes.ts";

const SECRET_PREFIX = "whsec_";
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;
const NEW_KEY_BYTES = 32;
const SIGNED_PAYLOAD = parseTemplate("{id}.{timestamp}.{body}")!;
const MAX_HASHES = 10_000;

const hashes = new Map<string, KeyedHash>();
const scratch = makeScratch();

export type ServiceSecretCheck =
  | { readonly valid: true; readonly reason: "ok"; readonly key: Uint8Array }
  | {
      readonly valid: false;
      readonly reason: "unknown_secret_prefix" | "malformed_secret" | "secret_size";
    };

/** Parses a delivery secret, as the specification has it: `whsec_` + base64 of 24 to 64 bytes. */
export function parseServiceSecret(secret: string): ServiceSecretCheck {
  const [, prefix = "", encoded = ""] = /^([A-Za-z]+_)(.*)$/s.exec(secret) ?? [];
  const key = decodeStrict(encoded, "base64");
  // whsk_ is the private key of the specification's asymmetric scheme: it may be called malformed, but is never accepted.
  if (prefix !== SECRET_PREFIX && (prefix !== "whsk_" || key !== null)) {
    return { valid: false, reason: "unknown_secret_prefix" };
  }
  if (key === null) return { valid: false, reason: "malformed_secret" };
  return key.byteLength >= MIN_KEY_BYTES && key.byteLength <= MAX_KEY_BYTES
    ? { valid: true, reason: "ok", key }
    : { valid: false, reason: "secret_size" };
}

/** Makes a secret: `whsec_` + base64 of 32 bytes from `randomBytes`. */
export function makeServiceSecret(randomBytes: (size: number) => Uint8Array): string {
  return SECRET_PREFIX + Buffer.from(randomBytes(NEW_KEY_BYTES)).toString("base64");
}

export interface DeliveryToSign {
  /** `webhook-id`: the event id, the same on every try. */
  readonly id: string;
  /** `webhook-timestamp`: new on every try. */
  readonly timestampSeconds: number;
  readonly body: Uint8Array;
  /** The current secret first, then the rotated-out ones that still overlap. */
  readonly secrets: readonly string[];
}

/**
 * Returns the `webhook-signature` header: one `v1,` signature per secret, separated by spaces, over the raw bytes.
 * https://www.standardwebhooks.com
 * @throws {TypeError} for a secret that is not base64
 */
export function signDelivery(delivery: DeliveryToSign): string {
  return delivery.secrets
    .map((secret) => `v1,${macOf(delivery, secret).toString("base64")}`)
    .join(" ");
}

/** Returns whether one of the header's `v1,` signatures was made with the secret. */
export function verifyDelivery(
  delivery: Omit<DeliveryToSign, "secrets">,
  secret: string,
  signatureHeader: string,
): boolean {
  const expected = macOf(delivery, secret);
  let isMatch = false;
  for (const entry of signatureHeader.split(" ")) {
    const signature = entry.startsWith("v1,") ? decodeStrict(entry.slice(3), "base64") : null;
    // Constant time: every entry is compared in full.
    isMatch = (signature !== null && equalDigests(signature, expected)) || isMatch;
  }
  return isMatch;
}

function macOf(delivery: Omit<DeliveryToSign, "secrets">, secret: string): Buffer {
  const parts = {
    body: delivery.body,
    timestamp: String(delivery.timestampSeconds),
    id: delivery.id,
    method: "",
    path: "",
  };
  return hashUnder(secret).digest(SIGNED_PAYLOAD, parts, scratch);
}

/** Returns the hash for a secret, kept because a process signs with few secrets again and again. */
function hashUnder(secret: string): KeyedHash {
  const known = hashes.get(secret);
  if (known !== undefined) return known;
  if (hashes.size >= MAX_HASHES) hashes.clear();
  const made = new KeyedHash("sha256", keyOf(secret));
  hashes.set(secret, made);
  return made;
}

/** Reads a secret; like other implementations, it accepts one without the prefix or without padding. */
function keyOf(secret: string): Uint8Array {
  const encoded = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret;
  const key = decodeSecret(encoded, "base64");
  if (key === null || key.byteLength === 0) {
    throw new TypeError("a delivery secret must be whsec_ followed by base64");
  }
  return key;
}
