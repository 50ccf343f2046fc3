import type { OwnedPartition } from "../../../domain/log.ts";
import { partitionOf } from "../../../domain/partition.ts";
import { decodeClaim } from "../recovery/claim.ts";

/** Growths that are remembered: what is still on its way by an earlier one has been for weeks. */
const MOST_COUNTS = 8;

/**
 * Where what is found in a partition has its home, or is to be sent on its way there.
 *
 * The log may grow again before it is committed that something was sent home, and the next owner finds it again. Sent to the home of
 * today, it would be made there, by an owner who knows nothing of it, while it has been made at the home of then. So it goes the same
 * way as before, by the counts of all owners of this partition in turn: whoever owns the home of then knows what has become of it,
 * and sends on what is left.
 */
export class WayHome {
  /** Of partitions: by those of earlier owners, which grew, and that of today. */
  readonly counts: readonly number[];
  readonly #partition: OwnedPartition;

  constructor(partition: OwnedPartition) {
    this.#partition = partition;
    const committed = partition.committed("attempts");
    const earlier = committed === null ? [] : decodeClaim(committed.metadata).counts;
    this.counts = [
      ...earlier.filter((count) => count < partition.partitions),
      partition.partitions,
    ].slice(-MOST_COUNTS);
  }

  isHome(endpointId: string): boolean {
    return partitionOf(endpointId, this.#partition.partitions) === this.#partition.partition;
  }

  /** This partition where it is at home; else the first that an owner of this one would have sent it to. */
  next(endpointId: string): number {
    const { partition: here } = this.#partition;
    if (this.isHome(endpointId)) return here;
    const homes = this.counts.map((count) => partitionOf(endpointId, count));
    return homes.find((home) => home !== here) ?? here;
  }
}
