/** What the log keeps of a credential: the whole value of a header, or its end. */
export const REDACTED = "[redacted]";
