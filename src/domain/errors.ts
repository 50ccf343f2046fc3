/** Codes of the contract; only `api/envelope.ts` turns them into HTTP statuses. */
export type ErrorCode =
  | "validation_error"
  | "endpoint_not_testable"
  | "rotation_not_supported"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "slug_taken"
  | "project_not_empty"
  | "endpoint_paused"
  | "payload_not_stored"
  | "rate_limited"
  | "unavailable"
  | "ingest_unreachable"
  | "internal_error";

/** An expected failure of a use case: stable code, a message that tells the caller what to do. */
export class RelayError extends Error {
  readonly code: ErrorCode;
  /** The request field that is wrong, for `validation_error`. */
  readonly field: string | null;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions & { field?: string }) {
    super(message, options);
    this.name = "RelayError";
    this.code = code;
    this.field = options?.field ?? null;
  }
}

/** Returns why a system call failed: its code (`ENOENT`), or the whole error as text when it has none. */
export function systemReason(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}

/** Wrong configuration or usage: one line that says what to set; exit code 2. */
export class UsageError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "UsageError";
  }
}
