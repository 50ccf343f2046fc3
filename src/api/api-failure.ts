import type { ErrorCode } from "../domain/errors.ts";

/** Codes that only HTTP itself can cause, beside those of the use cases. */
export type ApiErrorCode =
  | ErrorCode
  | "method_not_allowed"
  | "not_acceptable"
  | "payload_too_large"
  | "unsupported_media_type";

/** A request that is refused before (or instead of) its use case. */
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

/** Where a value stands, by keys and indexes from the outside; `place` when it is the whole. A key without a character is seen as "". */
export function nameOfField(path: readonly PropertyKey[], place: string): string {
  const keys = path.map((key) => (key === "" ? '""' : String(key)));
  return keys.length === 0 ? place : keys.join(".");
}

/** Of a field's name, which the sender chose, in a message. */
const MOST_SHOWN = 200;

/** 400 that names the field (or query parameter, or `body`) that is wrong. */
export function invalid(field: string, problem: string): ApiFailure {
  const shown =
    field.length > MOST_SHOWN ? `${Buffer.from(field.slice(0, MOST_SHOWN)).toString()}…` : field;
  return new ApiFailure("validation_error", `${shown}: ${problem}`);
}
