import { RelayError } from "../domain/errors.ts";
import { LogError } from "../domain/log.ts";
import { ApiFailure } from "./api-failure.ts";
import type { ApiErrorCode } from "./api-failure.ts";

/** The only place where codes become statuses. */
export const STATUS_OF_CODE = {
  validation_error: 400,
  endpoint_not_testable: 400,
  rotation_not_supported: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  not_acceptable: 406,
  request_timeout: 408,
  slug_taken: 409,
  project_not_empty: 409,
  endpoint_paused: 409,
  payload_not_stored: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
  headers_too_large: 431,
  internal_error: 500,
  unavailable: 503,
  ingest_unreachable: 503,
} as const satisfies Record<ApiErrorCode, number>;

const RETRY_AFTER_SECONDS = "5";

export interface ErrorAnswer {
  readonly code: ApiErrorCode;
  readonly status: number;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Formats a time as RFC 3339 in UTC, with milliseconds. */
export function formatTimestamp(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** Returns the answer to a thrown value. Anything unexpected becomes a 500 without details. */
export function describeError(error: unknown, requestId: string): ErrorAnswer {
  if (error instanceof ApiFailure) return answer(error.code, error.message, error.headers);
  if (error instanceof RelayError && error.code !== "internal_error")
    return answer(error.code, nameField(error.message, error.field));
  if (error instanceof LogError && error.code !== "log_record_too_large")
    return answer("unavailable", "The event log does not take records now. Try again shortly.");
  return answer(
    "internal_error",
    `Internal error. The service's log has the cause under request id ${requestId}.`,
  );
}

export function errorResponse(error: ErrorAnswer, nowMs: number): Response {
  return jsonResponse(JSON.stringify(errorBody(error, nowMs)), error.status, error.headers);
}

export function errorBody({ code, message }: Pick<ErrorAnswer, "code" | "message">, nowMs: number) {
  return { error: { code, message }, timestamp: formatTimestamp(nowMs) };
}

export function jsonResponse(
  json: string | Uint8Array<ArrayBuffer>,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(json, {
    status,
    headers: { "content-type": "application/json", ...headers },
  });
}

function answer(
  code: ApiErrorCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): ErrorAnswer {
  return {
    code,
    status: STATUS_OF_CODE[code],
    message,
    headers: { ...headersFor(code), ...headers },
  };
}

function headersFor(code: ApiErrorCode): Record<string, string> {
  if (code === "unauthorized") return { "www-authenticate": "Bearer" };
  if (code === "unavailable" || code === "ingest_unreachable" || code === "rate_limited")
    return { "retry-after": RETRY_AFTER_SECONDS };
  return {};
}

function nameField(message: string, field: string | null): string {
  return field === null || message.includes(field) ? message : `${field}: ${message}`;
}
