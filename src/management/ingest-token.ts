import { createHmac, timingSafeEqual } from "node:crypto";

const RANDOM_BYTES = 16;
const MAC_BYTES = 8;
const TOKEN_PATTERN = /^[A-Za-z0-9_-]{32}$/;

export interface IngestTokens {
  mint(): string;
  /** Returns false for a token that this installation never made: the store need not be asked about it. */
  isOurs(token: string): boolean;
}

/**
 * Makes and recognises the tokens of public ingest URLs: base64url of 128 random bits and a 64-bit MAC over them.
 * Nobody who scans for tokens can make one that passes, so a scan never reaches the database. The MAC lets nobody in:
 * the store decides which tokens exist.
 */
export function makeIngestTokens(
  key: Uint8Array,
  randomBytes: (size: number) => Uint8Array,
): IngestTokens {
  const macOf = (random: Uint8Array) =>
    createHmac("sha256", key).update("ingest token").update(random).digest().subarray(0, MAC_BYTES);
  return {
    mint() {
      const random = randomBytes(RANDOM_BYTES);
      return Buffer.concat([random, macOf(random)]).toString("base64url");
    },
    isOurs(token) {
      if (!TOKEN_PATTERN.test(token)) return false;
      const bytes = Buffer.from(token, "base64url");
      const random = bytes.subarray(0, RANDOM_BYTES);
      return timingSafeEqual(bytes.subarray(RANDOM_BYTES), macOf(random));
    },
  };
}
