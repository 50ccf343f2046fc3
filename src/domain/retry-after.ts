const MAX_RETRY_AFTER_MS = 24 * 3_600_000;
const MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec";
/** The three date forms of RFC 9110 section 5.6.7: IMF-fixdate, RFC 850, asctime. */
const HTTP_DATES = [
  new RegExp(
    `^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \\d{2} (?:${MONTHS}) \\d{4} \\d{2}:\\d{2}:\\d{2} GMT$`,
  ),
  new RegExp(
    `^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \\d{2}-(?:${MONTHS})-\\d{2} \\d{2}:\\d{2}:\\d{2} GMT$`,
  ),
  new RegExp(
    `^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:${MONTHS}) [ \\d]\\d \\d{2}:\\d{2}:\\d{2} \\d{4}$`,
  ),
];

/**
 * How long a `Retry-After` asks to wait, in ms, at most 24 h; null when it is absent, junk, or not in the future.
 * Seconds, of however many digits, or an HTTP date (RFC 9110 section 10.2.3).
 */
export function parseRetryAfterMs(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? "";
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : httpDateMs(text) - nowMs;
  if (!(waitMs > 0)) return null;
  return Math.min(MAX_RETRY_AFTER_MS, waitMs);
}

/** NaN when the text is no HTTP date. */
function httpDateMs(text: string): number {
  if (!HTTP_DATES.some((form) => form.test(text))) return Number.NaN;
  // asctime carries no zone and means UTC, which Date.parse would take for local time.
  return Date.parse(text.endsWith("GMT") ? text : `${text} GMT`);
}
