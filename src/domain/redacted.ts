/** Stands in the log for a credential: a header's whole value, or the end of it. */
export const REDACTED = "[redacted]";

/** Headers that carry credentials whatever the method, in lower case. */
export const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  "authorization",
  "proxy-authorization",
  "cookie",
]);
