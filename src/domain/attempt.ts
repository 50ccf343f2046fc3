import type { AttemptStatus, Provider } from "./enums.ts";
import type { Trigger } from "./delivery-task.ts";

/** One forwarding try (or one deferral, `rate_limited`) as recorded. `attempt_number` is computed when read. */
export interface Attempt {
  /** `att_` + 26 characters derived from (event, destination, run, try, deferral), so that redelivery makes the same row. */
  readonly id: string;
  readonly eventId: string;
  readonly destinationId: string;
  readonly endpointId: string;
  readonly orgId: string;
  readonly provider: Provider;
  readonly signatureValid: boolean;
  readonly eventReceivedAtMs: number;
  readonly run: string;
  readonly trigger: Trigger;
  readonly tryNumber: number;
  readonly deferral: number;
  readonly attemptedAtMs: number;
  readonly receiverUrl: string;
  /** 0 without a response; `responseBody` then says why. */
  readonly httpStatus: number;
  readonly responseBody: string;
  readonly latencyMs: number;
  readonly status: AttemptStatus;
  readonly nextRetryAtMs: number | null;
}
