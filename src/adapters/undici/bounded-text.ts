/** Text of at most `maxBytes` of UTF-8, cut between characters; bytes that are not UTF-8 become U+FFFD, NUL is dropped. */
export function boundedText(bytes: Buffer, maxBytes: number): string {
  let end = Math.min(bytes.length, maxBytes);
  if (end < bytes.length) while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  const text = bytes.toString("utf8", 0, end);
  return text.includes("\u0000") ? text.replaceAll("\u0000", "") : text;
}
