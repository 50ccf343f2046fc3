/**
 * Without the blanks and tabs around a header's value, which are no part of it (RFC 9110 section 5.6.3). By index and not by
 * pattern: one that is anchored at the end is quadratic on runs of blanks, and a receiver that sent 16 KB of them has held the
 * process for two seconds.
 */
export function trimOptionalSpace(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value.charCodeAt(start))) start += 1;
  while (end > start && isBlank(value.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === value.length ? value : value.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
