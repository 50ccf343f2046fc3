/** Writes a number that is not negative and fits 31 bits; its zigzag form is its double. */
export function writeVarInt(block: Buffer, from: number, value: number): number {
  let at = from;
  let left = value * 2;
  while (left > 0x7f) {
    block[at++] = (left & 0x7f) | 0x80;
    left >>>= 7;
  }
  block[at++] = left;
  return at;
}

/** Returns how many bytes `writeVarInt` writes. */
export function varIntBytes(value: number): number {
  let bytes = 1;
  for (let left = (value * 2) >>> 7; left > 0; left >>>= 7) bytes += 1;
  return bytes;
}
