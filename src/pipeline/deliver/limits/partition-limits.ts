import type { OwnedPartition } from "../../../domain/log.ts";
import { decodeClaim } from "../recovery/claim.ts";
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
    const { takeoverWaitMs } = shared.options;
    const leftMs = Math.min(takeoverWaitMs, incompleteForMs(shared, partition));
    this.#completeAtMs = assignedSteadyMs + leftMs;
    // Where no other process has partitions it comes from this one's recoveries, however long they take.
    this.#awaitsRecoveries = takeoverWaitMs === 0;
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
    return this.#leftMs <= 0;
  }

  /** Wall clock, ms: when they are complete; null: they are. A next owner may begin before. */
  get incompleteUntilMs(): number | null {
    const leftMs = this.#leftMs;
    return leftMs > 0 ? this.#shared.ports.clock.now() + leftMs : null;
  }

  /** As `get`, once they are complete. */
  async late(destinationId: string): Promise<LimitRecord | null> {
    const { clock, logger } = this.#shared.ports;
    if (this.#awaitsRecoveries) await this.#shared.recoveries.ended();
    await this.#known.readOn({ partition: this.#partition, clock, logger, waitMs: this.#leftMs });
    return this.get(destinationId);
  }

  get #leftMs(): number {
    return this.#completeAtMs - this.#shared.steadyNow();
  }
}

/**
 * For how long from now on limits may come that were kept at another home: the first owner of a partition, and the first of a log that
 * has grown, may hear of them late; and who follows an owner that was still waiting for them.
 */
function incompleteForMs({ ports }: SharedDelivery, partition: OwnedPartition): number {
  const committed = partition.committed("attempts");
  if (committed === null) return Number.POSITIVE_INFINITY;
  const last = decodeClaim(committed.metadata);
  if (last.partitions !== null && last.partitions < partition.partitions)
    return Number.POSITIVE_INFINITY;
  return last.incompleteUntilMs === null
    ? 0
    : Math.max(0, last.incompleteUntilMs - ports.clock.now());
}
