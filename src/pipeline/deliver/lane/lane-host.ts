import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../../domain/destination.ts";
import type { IntakeBudget } from "../bounds/intake-budget.ts";
import type { LimitsHost } from "./lane-rate-limit.ts";
import type { DeferralReason, DeliveryOptions, Reply } from "../ports.ts";
import type { SendGate } from "../bounds/send-gate.ts";

/** What a lane asks of the owner of its partition. Nothing here throws. */
export interface LaneHost extends LimitsHost {
  readonly gate: SendGate;
  /** Of its partition. */
  readonly budget: IntakeBudget;
  readonly options: DeliveryOptions;
  /** Owned, open, and not stopping. */
  mayStart(): boolean;
  /** True when the run has come to its end while the task waited: it is complete then, and not made. */
  endIfOver(task: DeliveryTask): boolean;
  /** Synchronous on a cache hit. */
  lookUp(destinationId: string): MaybeLater<Lookup<DestinationConfig>>;
  /** Makes the request and records its end in the background; the promise is the answer alone. */
  makeTry(task: DeliveryTask, config: DestinationConfig, onSent: () => void): Promise<Reply | null>;
  putOff(
    task: DeliveryTask,
    config: DestinationConfig | null,
    reason: DeferralReason,
    dueAtMs: number,
  ): void;
  /** Records that the limit keeps a task waiting in its lane; the answer is what waits. */
  limited(task: DeliveryTask, config: DestinationConfig, dueAtMs: number): DeliveryTask;
  hold(task: DeliveryTask): void;
  endDead(task: DeliveryTask, config: DestinationConfig | null, reason: string): void;
  onCircuit(change: 1 | -1): void;
  onQueued(change: number): void;
}
