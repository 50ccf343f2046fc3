/**
 * A failed request: an answer other than 2xx or without the envelope, or no answer (`status` 0, code `unreachable`, or
 * `invalid_id` or `invalid_options` when nothing was sent).
 */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  /** The value of `Retry-After`. */
  readonly retryAfterSeconds: number | null;
  constructor(
    answer: {
      readonly status: number;
      readonly code: string;
      readonly message: string;
      readonly requestId?: string | null;
      readonly retryAfterSeconds?: number | null;
    },
    options?: ErrorOptions,
  ) {
    super(answer.message, options);
    this.name = "ApiError";
    this.status = answer.status;
    this.code = answer.code;
    this.requestId = answer.requestId ?? null;
    this.retryAfterSeconds = answer.retryAfterSeconds ?? null;
  }
}
