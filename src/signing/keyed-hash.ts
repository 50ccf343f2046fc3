import { Buffer } from "node:buffer";
import { createHmac, hash } from "node:crypto";
import { feedSignedPayload, signedPayloadBytes, writeSignedPayload } from "./signed-payload.ts";
import type { SignedParts, TemplatePart } from "./signed-payload.ts";

export type HmacAlgorithm = "sha256" | "sha1";

/** Block size of both hash functions (FIPS 180-4). */
const BLOCK_BYTES = 64;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;
/** Longer payloads are fed to a stream piece by piece: joining them would cost more than it saves. */
const MAX_JOINED_BYTES = 16 * 1024;

/**
 * HMAC (RFC 2104) under one key. Short payloads take two one-shot hashes instead of Node's `Hmac` object, which halves
 * the time at 1 KB.
 */
export class KeyedHash {
  readonly #algorithm: HmacAlgorithm;
  readonly #key: Uint8Array;
  readonly #innerBlock: Buffer;
  /** The outer block, followed by room for the inner digest. */
  readonly #outer: Buffer;

  constructor(algorithm: HmacAlgorithm, key: Uint8Array) {
    this.#algorithm = algorithm;
    const short = key.byteLength > BLOCK_BYTES ? hash(algorithm, key, "buffer") : key;
    // A copy: what was decoded from text is part of a slab of 8 KB, which thousands of keys would each keep in memory.
    this.#key = new Uint8Array(short);
    this.#innerBlock = Buffer.alloc(BLOCK_BYTES, INNER_PAD);
    this.#outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES[algorithm], OUTER_PAD);
    for (const [index, byte] of short.entries()) {
      this.#innerBlock[index] = byte ^ INNER_PAD;
      this.#outer[index] = byte ^ OUTER_PAD;
    }
  }

  /** Returns the HMAC of the filled-in template; overwrites `scratch` (see `makeScratch`). */
  digest(template: readonly TemplatePart[], values: SignedParts, scratch: Buffer): Buffer {
    if (signedPayloadBytes(template, values) > scratch.length - BLOCK_BYTES)
      return this.#digestOfStream(template, values);
    scratch.set(this.#innerBlock);
    const end = writeSignedPayload(template, values, scratch, BLOCK_BYTES);
    const inner = hash(this.#algorithm, scratch.subarray(0, end), "binary");
    this.#outer.write(inner, BLOCK_BYTES, "latin1");
    return Buffer.from(hash(this.#algorithm, this.#outer, "binary"), "binary");
  }

  #digestOfStream(template: readonly TemplatePart[], values: SignedParts): Buffer {
    const hmac = createHmac(this.#algorithm, this.#key);
    feedSignedPayload(template, values, (bytes) => hmac.update(bytes));
    return hmac.digest();
  }
}

export const DIGEST_BYTES: Readonly<Record<HmacAlgorithm, number>> = { sha256: 32, sha1: 20 };

/** Allocates room for one joined payload; all keys can share it, one at a time. */
export function makeScratch(): Buffer {
  return Buffer.alloc(BLOCK_BYTES + MAX_JOINED_BYTES);
}
