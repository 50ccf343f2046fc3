import type { OwnedPartition } from "../../../domain/log.ts";
import { KnownLimits } from "./known-limits.ts";
import type { LimitRecord } from "./limits-codec.ts";
import type { SharedDelivery } from "../shared-delivery.ts";

/** What the owner of a partition knows of its destinations' limits, and from when on that is all there is. */
export class PartitionLimits {
  #known: KnownLimits;
  readonly #shared: SharedDelivery;
  readonly #partition: OwnedPartition;
  /** Steady, ms. */
  readonly #completeAtMs: number;
  readonly #awaitsRecoveries: boolean;

  constructor(shared: SharedDelivery, partition: OwnedPartition, assignedSteadyMs: number) {
    this.#shared = shared;
    this.#partition = partition;
    this.#known = new KnownLimits(shared.ports.clock.now());
    // The first owner of a partition may be the new home of what others limited until now, and hear of it late.
    const isFirst = partition.committed("attempts") === null;
    const { takeoverWaitMs } = shared.options;
    this.#completeAtMs = assignedSteadyMs + (isFirst ? takeoverWaitMs : 0);
    // Where no other process has partitions it comes from this one's recoveries, however long they take.
    this.#awaitsRecoveries = isFirst && takeoverWaitMs === 0;
  }

  /** Takes over what recovery has read. */
  adopt(known: KnownLimits): void {
    this.#known = known;
  }

  get(destinationId: string): LimitRecord | null {
    return this.#known.get(destinationId);
  }

  /** What was kept at a former home of the endpoints has been written here. */
  get areComplete(): boolean {
    if (this.#awaitsRecoveries && this.#shared.recoveries.areUnderWay) return false;
    return this.#shared.steadyNow() >= this.#completeAtMs;
  }

  /** As `get`, once they are complete. */
  async late(destinationId: string): Promise<LimitRecord | null> {
    const { clock, logger } = this.#shared.ports;
    if (this.#awaitsRecoveries) await this.#shared.recoveries.ended();
    const waitMs = this.#completeAtMs - this.#shared.steadyNow();
    await this.#known.readOn({ partition: this.#partition, clock, logger, waitMs });
    return this.get(destinationId);
  }
}
