import type { ErrorCode } from "../domain/errors.ts";

/** The error codes of the use cases, and those that only HTTP itself can cause. */
export type ApiErrorCode =
  | ErrorCode
  | "method_not_allowed"
  | "not_acceptable"
  | "payload_too_large"
  | "request_timeout"
  | "headers_too_large"
  | "unsupported_media_type";

/** A request refused before, or instead of, its use case. */
export class ApiFailure extends Error {
  readonly code: ApiErrorCode;
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    code: ApiErrorCode,
    message: string,
    options?: ErrorOptions & { readonly headers?: Readonly<Record<string, string>> },
  ) {
    super(message, options);
    this.name = "ApiFailure";
    this.code = code;
    this.headers = options?.headers ?? {};
  }
}

/**
 * Returns where a value is, by keys and indexes from the outside in, or `place` when it is the whole. An empty key is shown as "".
 */
export function nameOfField(path: readonly PropertyKey[], place: string): string {
  const keys = path.map((key) => (key === "" ? '""' : String(key)));
  return keys.length === 0 ? place : keys.join(".");
}

/** Most characters that a message shows of a field's name, which the sender chose. */
const MAX_SHOWN = 200;

/** Makes a 429 for what the caller may ask again in a second. */
export function tooMany(message: string): ApiFailure {
  return new ApiFailure("rate_limited", message, { headers: { "retry-after": "1" } });
}

/** Makes a 400 that names the wrong field (or query parameter, or `body`). */
export function invalid(field: string, problem: string): ApiFailure {
  const shown =
    field.length > MAX_SHOWN ? `${Buffer.from(field.slice(0, MAX_SHOWN)).toString()}…` : field;
  return new ApiFailure("validation_error", `${shown}: ${problem}`);
}
