import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../../domain/destination.ts";
import type { IntakeBudget } from "../bounds/intake-budget.ts";
import type { LimitsHost } from "./limits-host.ts";
import type { DeferralReason } from "../ports.ts";
import type { DeliveryOptions } from "../delivery-options.ts";
import type { Reply } from "../../../domain/outbound-request.ts";
import type { SendGate } from "../bounds/send-gate.ts";

/** What a lane needs from the owner of its partition. Nothing here throws. */
export interface LaneHost extends LimitsHost {
  readonly gate: SendGate;
  /** The budget of its partition. */
  readonly budget: IntakeBudget;
  readonly options: DeliveryOptions;
  /** Returns whether the partition is owned, open and not stopping. */
  mayStart(): boolean;
  /** Returns true if the run has ended or gone on while the task waited: the task is then complete, and its try is not made. */
  endIfOver(task: DeliveryTask): boolean;
  /** Synchronous on a cache hit. */
  lookUp(destinationId: string): MaybeLater<Lookup<DestinationConfig>>;
  /** Makes the request and records its end in the background; resolves with the reply alone. */
  makeTry(task: DeliveryTask, config: DestinationConfig, onSent: () => void): Promise<Reply | null>;
  putOff(
    task: DeliveryTask,
    config: DestinationConfig | null,
    reason: DeferralReason,
    dueAtMs: number,
  ): void;
  /** Records that the limit keeps a task waiting in its lane; returns the task that waits instead. */
  recordLimited(task: DeliveryTask, config: DestinationConfig, dueAtMs: number): DeliveryTask;
  hold(task: DeliveryTask): void;
  endDead(task: DeliveryTask, config: DestinationConfig | null, reason: string): void;
  onCircuit(change: 1 | -1): void;
  onQueued(change: number): void;
}
