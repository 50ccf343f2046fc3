import type { CommitEntry, LogRecord, OwnedPartition, Topic } from "../../../domain/log.ts";
import { LogPositions, RECOVERY_TOPICS } from "./log-positions.ts";
import type { Floors } from "./log-positions.ts";
import { OffsetTracker } from "./offset-tracker.ts";

export type SourceTopic = "events" | "tasks";
export const SOURCE_TOPICS: readonly SourceTopic[] = ["events", "tasks"];

interface Source {
  readonly tracker: OffsetTracker<Floors>;
  /** Records below this offset may have been worked on by an earlier owner. */
  redeliveredBelow: number;
}

/**
 * What is complete in one partition, and what the next owner has to read. A record's effects (ends, follow-ups, holds) are all
 * at or after the floors that applied when it was taken in, so the floors of the lowest incomplete record are committed with
 * the watermark. Redelivered records keep the floors of the last commit.
 */
export class PartitionPositions {
  readonly known = new LogPositions();
  readonly #sources = new Map<SourceTopic, Source>();
  readonly #committedFloors: Floors;
  /** Metadata of the commits, set before the first: see `claim.ts`. */
  claim = "";
  readonly #lowestHeld: () => number | undefined;

  constructor(partition: OwnedPartition, lowestHeld: () => number | undefined) {
    this.#lowestHeld = lowestHeld;
    this.#committedFloors = new Map(
      RECOVERY_TOPICS.map((topic) => [topic, committedFloor(partition, topic)]),
    );
    for (const topic of SOURCE_TOPICS)
      this.#sources.set(topic, {
        tracker: new OffsetTracker(partition.committed(topic)?.offset ?? 0),
        redeliveredBelow: 0,
      });
  }

  /** Marks all records up to the current ends as possible redeliveries. */
  async markRedelivered(partition: OwnedPartition): Promise<void> {
    for (const [topic, source] of this.#sources)
      source.redeliveredBelow = await partition.endOffset(topic);
  }

  /** The offsets from which records are no longer redeliveries, known once `markRedelivered` has run. */
  get firstNew(): Readonly<Record<SourceTopic, number>> {
    const of = (topic: SourceTopic): number => this.#sources.get(topic)!.redeliveredBelow;
    return { events: of("events"), tasks: of("tasks") };
  }

  /** Takes in a record. Returns false if this owner already has. */
  begin(topic: SourceTopic, record: LogRecord): boolean {
    const source = this.#sources.get(topic)!;
    if (record.offset < source.tracker.next) return false;
    const isOld = record.offset < source.redeliveredBelow;
    source.tracker.begin(record.offset, isOld ? this.#committedFloors : this.known.floors());
    return true;
  }

  complete(topic: SourceTopic, offset: number): void {
    this.#sources.get(topic)!.tracker.complete(offset);
  }

  /** Records taken in and not complete. */
  get openCount(): number {
    return this.#count((tracker) => tracker.openCount);
  }

  /** Records from the watermarks on, complete or not: what the next owner would be given again. */
  get spanCount(): number {
    return this.#count((tracker) => tracker.spanCount);
  }

  /** Whether everything that may have been worked on before this assignment is complete. */
  get isCaughtUp(): boolean {
    for (const { tracker, redeliveredBelow } of this.#sources.values())
      if (tracker.watermark < redeliveredBelow) return false;
    return true;
  }

  entries(): CommitEntry[] {
    const entries: CommitEntry[] = [];
    const floors: Floors[] = [this.known.floors()];
    for (const [topic, { tracker, redeliveredBelow }] of this.#sources) {
      entries.push({ topic, offset: tracker.watermark });
      if (tracker.next < redeliveredBelow) floors.push(this.#committedFloors);
      const { lowestNote } = tracker;
      if (lowestNote !== undefined) floors.push(lowestNote);
    }
    for (const topic of RECOVERY_TOPICS) {
      const offset = Math.min(...floors.map((floor) => floor.get(topic) ?? 0));
      if (topic === "attempts") entries.push({ topic, offset, metadata: this.claim });
      else if (topic === "held")
        entries.push({
          topic,
          offset: Math.min(this.#lowestHeld() ?? Number.POSITIVE_INFINITY, offset),
          metadata: String(offset),
        });
      else entries.push({ topic, offset });
    }
    return entries;
  }

  #count(of: (tracker: OffsetTracker<Floors>) => number): number {
    let count = 0;
    for (const { tracker } of this.#sources.values()) count += of(tracker);
    return count;
  }
}

/** Returns the offset from which the topic holds what is durable of incomplete records. */
export function committedFloor(partition: OwnedPartition, topic: Topic): number {
  const committed = partition.committed(topic);
  if (committed === null) return 0;
  // The committed offset of `held` is as low as the oldest held task; the floor is in its metadata.
  return topic === "held" ? Number(committed.metadata || 0) : committed.offset;
}
