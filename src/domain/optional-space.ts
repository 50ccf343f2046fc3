/**
 * Trims the blanks and tabs around a header's value, which are not part of it (RFC 9110 section 5.6.3). Goes by index because a
 * pattern anchored at the end is quadratic on runs of blanks: 16 KB of them from a receiver would block the process for two
 * seconds.
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
