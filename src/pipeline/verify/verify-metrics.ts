import type { VerificationMethod } from "../../domain/enums.ts";

/** Why a request could not be verified in time; it is answered 503, so the provider sends it again. */
export type VerifyFailure = "queue_full" | "too_late" | "worker_lost" | "stopped";

/** What the verification stage counts. */
export interface VerifyMetrics {
  verified(
    method: VerificationMethod,
    where: "inline" | "pool",
    reason: string,
    seconds: number,
  ): void;
  unavailable(cause: VerifyFailure): void;
  batchSent(requests: number): void;
  /** Requests waiting for a worker, and the bytes of their bodies. */
  queued(requests: number, sizeBytes: number): void;
}
