import type { Clock } from "../../../domain/clock.ts";
import type { DeliveryOptions } from "../delivery-options.ts";
import type { LimitRecord } from "../limits/limits-codec.ts";
import type { PartitionLimits } from "../limits/partition-limits.ts";

/** What the rate limit of a lane needs of its partition. */
export interface LimitsHost {
  readonly clock: Clock;
  readonly options: Pick<DeliveryOptions, "deliveryTimeoutMs">;
  /** Returns a time in ms that never goes back and never jumps: windows are measured by it. */
  steadyNow(): number;
  /** What the `limits` log said at the assignment, and what has come there since from former homes. */
  readonly limits: Pick<PartitionLimits, "get" | "areComplete" | "late">;
  /** When this owner began: a limit per second counts as used up then. */
  readonly assignedSteadyMs: number;
  /** Resolves with true once the record is durable. */
  writeLimit(record: LimitRecord, endpointId: string): Promise<boolean>;
}
