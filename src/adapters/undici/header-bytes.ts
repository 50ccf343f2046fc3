import { Buffer } from "node:buffer";

const BEYOND_ASCII = /[\u0080-\uffff]/;

/**
 * Returns a header's value with one character for each byte of its UTF-8, as it came. HTTP clients write a character as one byte: é
 * would go out as a byte that is not UTF-8, and a character that does not fit into a byte is refused.
 */
export function headerBytes(value: string): string {
  return BEYOND_ASCII.test(value) ? Buffer.from(value, "utf8").toString("latin1") : value;
}
