/** An answer other than 2xx, or none at all (`status` 0, code `unreachable`; `invalid_id` where nothing was asked). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  /** What `Retry-After` says. */
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
