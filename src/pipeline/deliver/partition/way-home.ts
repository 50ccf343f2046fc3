import type { LogRecord, OwnedPartition } from "../../../domain/log.ts";
import { partitionOf } from "../../../domain/partition.ts";
import { decodeClaim } from "../recovery/claim.ts";
import type { CountFrom } from "../recovery/claim.ts";
import type { SourceTopic } from "./partition-positions.ts";

/**
 * Tells whether a record found in a partition is at home there, and where to send it if not.
 *
 * After a record was sent home, the log may grow again before that is committed, and the next owner finds the record again.
 * Sent to the home it has by then, it would be tried by an owner that knows nothing of it, although it was already tried at
 * its former home. So it goes where it went before, by the count of the first owner for whom it was not at home: whoever owns
 * that home knows what became of it, and sends on what is left.
 */
export class WayHome {
  readonly #partition: OwnedPartition;
  #counts: readonly CountFrom[] = [];

  constructor(partition: OwnedPartition) {
    this.#partition = partition;
  }

  /** The counts that owners have gone by, oldest first, as far back as their records may be found again; empty before `begin`. */
  get counts(): readonly CountFrom[] {
    return this.#counts;
  }

  /** @param firstNew offsets from which on no earlier owner has taken in any record */
  begin(firstNew: Readonly<Record<SourceTopic, number>>): void {
    const partition = this.#partition;
    const { partitions } = partition;
    const last = partition.committed("attempts");
    const known = last === null ? [] : decodeClaim(last.metadata).counts;
    const all =
      known.at(-1)?.partitions === partitions ? known : [...known, { partitions, ...firstNew }];
    const isOver = (next: CountFrom | undefined): boolean =>
      next !== undefined &&
      next.events <= (partition.committed("events")?.offset ?? 0) &&
      next.tasks <= (partition.committed("tasks")?.offset ?? 0);
    this.#counts = all.filter((_, index) => !isOver(all[index + 1]));
  }

  isHome({ key }: LogRecord): boolean {
    const { partition, partitions } = this.#partition;
    return partitionOf(key, partitions) === partition;
  }

  /** Returns where to send a record that is not at home here. */
  next({ topic, offset, key }: LogRecord): number {
    const { partition: here, partitions } = this.#partition;
    const first = this.#counts.findLastIndex((count) => count[topic as SourceTopic] <= offset);
    for (const count of this.#counts.slice(Math.max(0, first))) {
      const home = partitionOf(key, count.partitions);
      if (home !== here) return home;
    }
    return partitionOf(key, partitions);
  }
}
