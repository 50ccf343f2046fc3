import { createHash, timingSafeEqual } from "node:crypto";

/**
 * Compares digests. Their length is public (the algorithm sets it), so unequal lengths may return at once; digests of
 * equal length take the same time wherever they differ.
 */
export function equalDigests(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}

/**
 * Compares credentials, whose length is a secret too: both are hashed to 32 bytes first, so the time varies only with
 * the presented value, which its sender knows anyway.
 */
export function equalCredentials(presented: Uint8Array, expected: Uint8Array): boolean {
  return timingSafeEqual(sha256(presented), sha256(expected));
}

function sha256(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}
