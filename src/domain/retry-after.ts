import { trimOptionalSpace } from "./optional-space.ts";

const MAX_RETRY_AFTER_MS = 24 * 3_600_000;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = "(?<hour>\\d{2}):(?<minute>\\d{2}):(?<second>\\d{2})";
/** The three date forms of RFC 9110 section 5.6.7: IMF-fixdate, RFC 850, asctime. */
const HTTP_DATES = [
  `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\\d{2}) ${MONTH} (?<year>\\d{4}) ${TIME} GMT`,
  `(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\\d{2})-${MONTH}-(?<year>\\d{2}) ${TIME} GMT`,
  `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ${MONTH} (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})`,
].map((form) => new RegExp(`^${form}$`));
const YEARS_AHEAD = 50;

/** The headers of one answer that say when to come back. */
export interface RetryAfter {
  /** `Retry-After`. */
  readonly retryAfter: string | null;
  /** `Date`. */
  readonly date: string | null;
}

/**
 * Returns how long a `Retry-After` asks to wait, in ms, at most 24 h; null when it is absent, junk, or not in the future. Takes
 * seconds, of any number of digits, or an HTTP date (RFC 9110 section 10.2.3), which is of the receiver's clock: where the answer's
 * `Date` tells that, the wait counts from there, and only otherwise from `nowMs`.
 */
export function parseRetryAfterMs(
  { retryAfter, date }: Partial<RetryAfter>,
  nowMs: number,
): number | null {
  const text = trimOptionalSpace(retryAfter ?? "");
  const waitMs = /^\d+$/.test(text)
    ? Number(text) * 1000
    : httpDateMs(text, nowMs) - answeredAtMs(date, nowMs);
  if (!(waitMs > 0)) return null;
  return Math.min(MAX_RETRY_AFTER_MS, waitMs);
}

/** Returns when the answer was made, by the receiver's clock; `nowMs` if it does not say. */
function answeredAtMs(date: string | null | undefined, nowMs: number): number {
  const saidMs = httpDateMs(trimOptionalSpace(date ?? ""), nowMs);
  return Number.isNaN(saidMs) ? nowMs : saidMs;
}

/** Returns NaN when the text is not an HTTP date, or its day does not exist. */
function httpDateMs(text: string, nowMs: number): number {
  const fields = HTTP_DATES.map((form) => form.exec(text)?.groups).find(Boolean);
  if (fields === undefined) return Number.NaN;
  const monthIndex = MONTHS.indexOf(fields["month"] ?? "");
  const year = fullYear(fields["year"] ?? "", nowMs);
  const [day, hour, minute, second] = ["day", "hour", "minute", "second"].map((name) =>
    Number(fields[name]),
  ) as [number, number, number, number];
  // Second 60 is a leap second.
  if (hour > 23 || minute > 59 || second > 60) return Number.NaN;
  const isThere = new Date(Date.UTC(year, monthIndex, day)).getUTCDate() === day;
  return isThere ? Date.UTC(year, monthIndex, day, hour, minute, second) : Number.NaN;
}

/**
 * Returns the year; two digits that would be more than fifty years ahead mean the last such year in the past (RFC 9110 section
 * 5.6.7).
 */
function fullYear(digits: string, nowMs: number): number {
  if (digits.length === 4) return Number(digits);
  const now = new Date(nowMs).getUTCFullYear();
  const year = now - (now % 100) + Number(digits);
  return year > now + YEARS_AHEAD ? year - 100 : year;
}
