const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const HEX_LENGTH = 4;
const REPLACEMENT = 0xfffd;
/** What a letter after a backslash stands for (RFC 8259 section 7); the others stand for themselves. */
const LETTERS: ReadonlyMap<number, number> = new Map([
  [0x62, 0x08],
  [0x66, 0x0c],
  [0x6e, 0x0a],
  [0x72, 0x0d],
  [0x74, 0x09],
]);

/**
 * Writes a JSON string, known to be well-formed and without its quotes, as UTF-8; a lone surrogate becomes U+FFFD, as it does
 * whenever text is encoded. @returns how many bytes of `out` it takes
 */
export function unescapeInto(out: Buffer, bytes: Uint8Array, from: number, end: number): number {
  let sizeBytes = 0;
  for (let at = from; at < end; at += 1) {
    if (bytes[at] !== BACKSLASH) {
      out[sizeBytes++] = bytes[at]!;
      continue;
    }
    at += 1;
    const letter = bytes[at]!;
    if (letter !== LETTER_U) {
      out[sizeBytes++] = LETTERS.get(letter) ?? letter;
      continue;
    }
    const unit = hexAt(bytes, at + 1);
    at += HEX_LENGTH;
    const low = isHigh(unit) ? lowAt(bytes, at + 1) : null;
    if (low !== null) at += 2 + HEX_LENGTH;
    sizeBytes = writeUtf8(out, sizeBytes, codePointOf(unit, low));
  }
  return sizeBytes;
}

/** Counts the code points of UTF-8 text. */
export function countCodePoints(text: Uint8Array, sizeBytes: number): number {
  let count = 0;
  for (let at = 0; at < sizeBytes; at += 1) if (text[at]! < 0x80 || text[at]! >= 0xc0) count += 1;
  return count;
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** Returns the low surrogate that is escaped at `at`; null when none is. */
function lowAt(bytes: Uint8Array, at: number): number | null {
  if (bytes[at] !== BACKSLASH || bytes[at + 1] !== LETTER_U) return null;
  const unit = hexAt(bytes, at + 2);
  return unit >= 0xdc00 && unit <= 0xdfff ? unit : null;
}

function codePointOf(unit: number, low: number | null): number {
  if (low !== null) return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  return unit >= 0xd800 && unit <= 0xdfff ? REPLACEMENT : unit;
}

/** @returns where it ends */
function writeUtf8(out: Buffer, from: number, codePoint: number): number {
  let at = from;
  if (codePoint < 0x80) {
    out[at++] = codePoint;
    return at;
  }
  if (codePoint < 0x800) out[at++] = 0xc0 | (codePoint >> 6);
  else {
    if (codePoint < 0x10000) out[at++] = 0xe0 | (codePoint >> 12);
    else {
      out[at++] = 0xf0 | (codePoint >> 18);
      out[at++] = 0x80 | ((codePoint >> 12) & 0x3f);
    }
    out[at++] = 0x80 | ((codePoint >> 6) & 0x3f);
  }
  out[at++] = 0x80 | (codePoint & 0x3f);
  return at;
}

function hexAt(bytes: Uint8Array, from: number): number {
  let value = 0;
  for (let at = from; at < from + HEX_LENGTH; at += 1) {
    const digit = bytes[at]!;
    value = value * 16 + (digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57);
  }
  return value;
}
