/** How much is kept of a receiver's answer, or of the reason why there is none. */
const MAX_STORED_BYTES = 16 * 1024;
const MAX_UTF8_BYTES_PER_UNIT = 3;
const encoder = new TextEncoder();
const room = new Uint8Array(MAX_STORED_BYTES);

/**
 * Returns the beginning of a text, at most 16 KiB as UTF-8, cut between characters. Decoding can make text grow: a byte that
 * is not UTF-8 becomes U+FFFD, which takes three.
 */
export function storedText(text: string): string {
  if (text.length * MAX_UTF8_BYTES_PER_UNIT <= MAX_STORED_BYTES) return text;
  const { read } = encoder.encodeInto(text, room);
  return read === text.length ? text : text.slice(0, read);
}
