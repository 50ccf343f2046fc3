const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})$/;
const MS_PER_MINUTE = 60_000;
const MS_DIGITS = 3;

/**
 * Returns the milliseconds of an RFC 3339 date-time, or null when it is not one or no such day or time exists. Finer
 * fractions are rounded up, so that `>=` and `<` against whole milliseconds stay exact.
 */
export function parseDateTime(text: string): number | null {
  const match = DATE_TIME.exec(text);
  if (match === null) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (hour > 23 || minute > 59 || second > 60) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const offsetMinutes = parseOffset(match[8] ?? "Z");
  if (offsetMinutes === null) return null;
  // 60 is a leap second; it counts as the first moment of the next minute.
  date.setUTCHours(hour, minute, second, 0);
  return date.getTime() + fractionMs(match[7] ?? "") - offsetMinutes * MS_PER_MINUTE;
}

/** Reads the digits after the point, however many; as a floating-point number they would not be exact. */
function fractionMs(digits: string): number {
  const wholeMs = Number(digits.slice(0, MS_DIGITS).padEnd(MS_DIGITS, "0"));
  return /[1-9]/.test(digits.slice(MS_DIGITS)) ? wholeMs + 1 : wholeMs;
}

function parseOffset(text: string): number | null {
  if (text.toUpperCase() === "Z") return 0;
  const hours = Number(text.slice(1, 3));
  const minutes = Number(text.slice(4, 6));
  if (hours > 23 || minutes > 59) return null;
  return (text.startsWith("-") ? -1 : 1) * (hours * 60 + minutes);
}
