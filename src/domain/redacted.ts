/** Stands in the log for a credential: a header's whole value, or the end of it. */
export const REDACTED = "[redacted]";
