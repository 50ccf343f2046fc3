const MASK = 0xffff_ffff_ffff_ffffn;

/**
 * Returns ClickHouse's `sipHash64` of a text: SipHash-2-4 (Aumasson and Bernstein, https://131002.net/siphash/) with an all-zero key.
 * Fast enough for a few texts per query, not for every row.
 */
export function sipHash64(text: string): bigint {
  const bytes = Buffer.from(text, "utf8");
  const state: State = [
    0x736f_6d65_7073_6575n,
    0x646f_7261_6e64_6f6dn,
    0x6c79_6765_6e65_7261n,
    0x7465_6462_7974_6573n,
  ];
  const wholeBytes = bytes.length - (bytes.length % 8);
  for (let at = 0; at < wholeBytes; at += 8) absorb(state, bytes.readBigUInt64LE(at));
  // The last word: the remaining bytes, and the length in its highest byte.
  const last = Buffer.alloc(8);
  bytes.copy(last, 0, wholeBytes);
  last[7] = bytes.length % 256;
  absorb(state, last.readBigUInt64LE(0));
  state[2] ^= 0xffn;
  for (let round = 0; round < 4; round += 1) mix(state);
  return state[0] ^ state[1] ^ state[2] ^ state[3];
}

type State = [bigint, bigint, bigint, bigint];

function absorb(state: State, word: bigint): void {
  state[3] ^= word;
  mix(state);
  mix(state);
  state[0] ^= word;
}

function mix(state: State): void {
  let [v0, v1, v2, v3] = state;
  v0 = (v0 + v1) & MASK;
  v1 = rotate(v1, 13n) ^ v0;
  v0 = rotate(v0, 32n);
  v2 = (v2 + v3) & MASK;
  v3 = rotate(v3, 16n) ^ v2;
  v0 = (v0 + v3) & MASK;
  v3 = rotate(v3, 21n) ^ v0;
  v2 = (v2 + v1) & MASK;
  v1 = rotate(v1, 17n) ^ v2;
  v2 = rotate(v2, 32n);
  state[0] = v0;
  state[1] = v1;
  state[2] = v2;
  state[3] = v3;
}

function rotate(word: bigint, bits: bigint): bigint {
  return ((word << bits) | (word >> (64n - bits))) & MASK;
}
