import { pause } from "../../../domain/clock.ts";
import type { OwnedPartition } from "../../../domain/log.ts";
import { decodeClaim } from "../recovery/claim.ts";
import { KnownLimits } from "./known-limits.ts";
import type { LimitRecord } from "./limits-codec.ts";
import type { SharedDelivery } from "../shared-delivery.ts";

/** The owner of a former home may die before it has written what it kept: this covers a session, a rebalance and a recovery. */
const MIN_WAIT_MS = 17_000;

/** What the owner of a partition knows of its destinations' limits, and from when on that is complete. */
export class PartitionLimits {
  /** What the `limits` log says; recovery fills it before the first lane asks. */
  readonly known: KnownLimits;
  readonly #shared: SharedDelivery;
  readonly #partition: OwnedPartition;
  /** Steady, ms. */
  readonly #completeAtMs: number;
  readonly #awaitsRecoveries: boolean;
  readonly #ended = new AbortController();
  /** Resolves at `#completeAtMs`, or when it is closed. Null: nothing has waited for that yet. */
  #waiting: Promise<void> | null = null;

  constructor(shared: SharedDelivery, partition: OwnedPartition, assignedSteadyMs: number) {
    this.#shared = shared;
    this.#partition = partition;
    this.known = new KnownLimits(shared.ports.clock.now());
    const { takeoverWaitMs } = shared.options;
    const waitMs = takeoverWaitMs === 0 ? 0 : Math.max(takeoverWaitMs, MIN_WAIT_MS);
    this.#completeAtMs = assignedSteadyMs + Math.min(waitMs, incompleteForMs(shared, partition));
    // If no other process has partitions, the rest comes from this one's recoveries, however long they take.
    this.#awaitsRecoveries = takeoverWaitMs === 0;
  }

  get(destinationId: string): LimitRecord | null {
    return this.known.get(destinationId);
  }

  /** Whether former homes of the endpoints have had time to write here what they kept. */
  get areComplete(): boolean {
    if (this.#awaitsRecoveries && this.#shared.recoveries.areUnderWay) return false;
    return this.#leftMs <= 0;
  }

  /** When they count as complete, wall clock, ms; null if they already do. The next owner may begin before that. */
  get incompleteUntilMs(): number | null {
    const leftMs = this.#leftMs;
    return leftMs > 0 ? this.#shared.ports.clock.now() + leftMs : null;
  }

  /** Ends every wait: whoever waits for the rest goes on with what is known. */
  close(): void {
    this.#ended.abort();
  }

  /** Resolves with what `get` returns once they are complete. */
  async late(destinationId: string): Promise<LimitRecord | null> {
    const { clock, logger } = this.#shared.ports;
    if (this.#awaitsRecoveries) await this.#shared.recoveries.ended();
    if (this.#leftMs > 0) await (this.#waiting ??= pause(clock, this.#leftMs, this.#ended.signal));
    if (!this.#ended.signal.aborted) await this.known.readOn(this.#partition, logger);
    return this.get(destinationId);
  }

  get #leftMs(): number {
    return this.#completeAtMs - this.#shared.steadyNow();
  }
}

/**
 * Returns for how long from now limits kept at another home may still arrive. The first owner of a partition, and the first
 * since the log has grown (or if no earlier one recorded its size), may receive them late and cannot know when it has all of
 * them; an owner that follows one still waiting goes on with that wait.
 */
function incompleteForMs({ ports }: SharedDelivery, partition: OwnedPartition): number {
  const committed = partition.committed("attempts");
  if (committed === null) return Number.POSITIVE_INFINITY;
  const last = decodeClaim(committed.metadata);
  if ((last.counts.at(-1)?.partitions ?? 0) < partition.partitions) return Number.POSITIVE_INFINITY;
  return Math.max(0, (last.incompleteUntilMs ?? 0) - ports.clock.now());
}
