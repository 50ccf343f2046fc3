import { stdSerializers } from "pino";
import { isOutage } from "./is-outage.ts";

/** In `postgresql://user:password@host`, what precedes the host. */
const CREDENTIALS = /(?<=:\/\/)[^\s/?#]*@/g;

/**
 * Returns an error as a log line shows it: type, message with those of its causes, its plain fields (`code`, …), and the stack
 * unless something outside is at fault. Fields that hold more (a request, a connection's options) are left out, and so are the
 * credentials of a URL. A text becomes an object, too: where lines are collected, a field has one type. Any other value stays what
 * it is.
 */
export function serializeError(value: unknown): unknown {
  if (typeof value === "string") return { message: redact(value) };
  if (!(value instanceof Error)) return value;
  const shown: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(stdSerializers.err(value)))
    if (typeof field === "string") shown[name] = redact(field);
    else if (typeof field === "number" || typeof field === "boolean") shown[name] = field;
  shown["message"] = redact(messageOf(value));
  if (isOutage(value)) delete shown["stack"];
  if (value instanceof AggregateError) shown["errors"] = value.errors.map(serializeError);
  return shown;
}

/** Does the same for a terminal, where a failure of something outside takes one line: its message and code. */
export function serializeErrorForTerminal(value: unknown): unknown {
  if (typeof value === "string") return redact(value);
  if (!(value instanceof Error && isOutage(value))) return serializeError(value);
  const message = redact(messageOf(value)).trim().split("\n", 1)[0]!;
  const code = codeOf(value);
  return code === "" || message.includes(code) ? message : `${message} (${code})`;
}

/** Returns the message with those of its causes, except for what was said already: many errors quote their cause. */
function messageOf(error: Error, above: readonly Error[] = []): string {
  const { cause } = error;
  // For several refused addresses Node gives only the code.
  const message = error.message === "" ? codeOf(error) : error.message;
  if (!(cause instanceof Error) || above.includes(cause)) return message;
  const behind = messageOf(cause, [...above, error]);
  return message.includes(behind.trim()) ? message : `${message.replace(/\.$/, "")}: ${behind}`;
}

function codeOf(error: Error): string {
  return "code" in error ? String(error.code) : "";
}

function redact(text: string): string {
  return text.replaceAll(CREDENTIALS, "[redacted]@");
}
