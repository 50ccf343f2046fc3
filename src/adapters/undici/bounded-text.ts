const MAX_TAIL_BYTES = 3;

/** Returns text of at most `maxBytes` of UTF-8, cut between characters; bytes that are not UTF-8 become U+FFFD, NUL is dropped. */
export function boundedText(bytes: Buffer, maxBytes: number): string {
  const end = Math.min(bytes.length, maxBytes);
  const text = bytes.toString("utf8", 0, end - cutCharacterBytes(bytes, end));
  return text.includes("\u0000") ? text.replaceAll("\u0000", "") : text;
}

/** Returns how many bytes before `end` are of a character that continues after it; 0 for a longer run, which is not UTF-8. */
function cutCharacterBytes(bytes: Buffer, end: number): number {
  const isTail = (index: number): boolean => ((bytes[index] ?? 0) & 0xc0) === 0x80;
  for (let before = 0; before <= MAX_TAIL_BYTES; before += 1)
    if (!isTail(end - before)) return before;
  return 0;
}
