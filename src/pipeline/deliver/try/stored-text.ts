import { MAX_RESPONSE_BODY_BYTES } from "../../../domain/response-body.ts";

const MAX_UTF8_BYTES_PER_UNIT = 3;
const encoder = new TextEncoder();
const room = new Uint8Array(MAX_RESPONSE_BODY_BYTES);

/**
 * Returns the beginning of a text, at most 16 KiB as UTF-8, cut between characters. Decoding can make text grow: a byte that
 * is not UTF-8 becomes U+FFFD, which takes three.
 */
export function storedText(text: string): string {
  if (text.length * MAX_UTF8_BYTES_PER_UNIT <= MAX_RESPONSE_BODY_BYTES) return text;
  const { read } = encoder.encodeInto(text, room);
  return read === text.length ? text : text.slice(0, read);
}
