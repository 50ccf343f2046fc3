import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import type { Log, NewRecord, OwnedPartition, Position } from "../../../domain/log.ts";
import type { Logger } from "../../../domain/logger.ts";
import type { ReleaseRules } from "./choose-release.ts";

/** What the held tasks of a partition need from its owner. */
export interface HeldHost extends ReleaseRules {
  readonly logger: Logger;
  readonly partition: OwnedPartition;
  readonly log: Pick<Log, "writesWhole">;
  mayStart(): boolean;
  /** Resolves with null if the records could not be made durable. */
  write(records: readonly NewRecord[]): Promise<readonly Position[] | null>;
  /** Runs `work`, which encodes the task and writes it, when there is room for a copy of its body. */
  copied<T>(task: DeliveryTask, work: () => Promise<T>): Promise<T>;
  /** Returns the record that ends a run without a request. */
  deadRecord(task: DeliveryTask, config: DestinationConfig | null, reason: string): NewRecord;
  onHeld(change: number): void;
  /** Counts runs that ended `dead`, durably. */
  onDead(count: number): void;
}
