import { stdSerializers } from "pino";

/** In `postgresql://user:password@host`, what precedes the host. */
const CREDENTIALS = /(?<=:\/\/)[^\s/?#]*@/g;

/**
 * Returns an error as a log line shows it: type, message and stack with those of its causes, and its plain fields (`code`, …).
 * Fields that hold more (a request, a connection's options) are left out, and so are the credentials of a URL, in plain text as well.
 * Any other value stays what it is.
 */
export function serializeError(value: unknown): unknown {
  if (typeof value === "string") return redact(value);
  if (!(value instanceof Error)) return value;
  const shown: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(stdSerializers.err(value)))
    if (typeof field === "string") shown[name] = redact(field);
    else if (typeof field === "number" || typeof field === "boolean") shown[name] = field;
  shown["message"] = redact(messageOf(value));
  if (value instanceof AggregateError) shown["errors"] = value.errors.map(serializeError);
  return shown;
}

/** Returns the message with those of its causes, except for what was said already: many errors quote their cause. */
function messageOf(error: Error, above: readonly Error[] = []): string {
  const { message, cause } = error;
  if (!(cause instanceof Error) || above.includes(cause)) return message;
  const behind = messageOf(cause, [...above, error]);
  return message.includes(behind.trim()) ? message : `${message}: ${behind}`;
}

function redact(text: string): string {
  return text.replaceAll(CREDENTIALS, "[redacted]@");
}
