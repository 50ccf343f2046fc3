import { DELAY_TIERS } from "../../../domain/delay-tier.ts";
import type { NewRecord, Position, Topic } from "../../../domain/log.ts";

/** Topics that a new owner reads to learn what is durable of the tries it sees again. */
export const RECOVERY_TOPICS: readonly Topic[] = [
  "attempts",
  "held",
  ...DELAY_TIERS.map((tier) => tier.topic),
];

/** An offset per recovery topic: everything that a record brings about is at or after it. */
export type Floors = ReadonlyMap<Topic, number>;

/** Lower bounds for the offset of the next record of each recovery topic, in one partition. */
export class LogPositions {
  readonly #next = new Map<Topic, number>();
  #snapshot: Floors | null = null;

  raise(topic: Topic, nextOffset: number): void {
    if (nextOffset <= (this.#next.get(topic) ?? -1)) return;
    this.#next.set(topic, nextOffset);
    this.#snapshot = null;
  }

  /** Raises the bounds by what was appended. Records that went to another partition (the number of partitions has grown) do not count. */
  onAppended(
    partition: number,
    records: readonly NewRecord[],
    positions: readonly Position[],
  ): void {
    for (const [index, { topic }] of records.entries()) {
      const position = positions[index];
      if (position?.partition === partition && RECOVERY_TOPICS.includes(topic))
        this.raise(topic, position.offset + 1);
    }
  }

  /** Returns the same object until something changes. */
  floors(): Floors {
    this.#snapshot ??= new Map(this.#next);
    return this.#snapshot;
  }
}
