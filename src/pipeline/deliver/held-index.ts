import type { HeldEntry } from "./held-codec.ts";

interface HeldLane {
  /** Ascending. */
  offsets: Set<number>;
  lastOffset: number;
  /** When the oldest run began that was ever held here, ms since the epoch. */
  oldestRunMs: number;
}

/** Where the held tasks of each destination are: offsets only, the bodies stay in the log. */
export class HeldIndex {
  readonly #lanes = new Map<string, HeldLane>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  destinations(): string[] {
    return [...this.#lanes.keys()];
  }

  has(destinationId: string): boolean {
    return this.#lanes.has(destinationId);
  }

  /** A lower bound; infinite when nothing is held. */
  oldestRunMs(destinationId: string): number {
    return this.#lanes.get(destinationId)?.oldestRunMs ?? Number.POSITIVE_INFINITY;
  }

  /** The bound was looked at and is higher. */
  raiseOldestRun(destinationId: string, runStartedAtMs: number): void {
    const lane = this.#lanes.get(destinationId);
    if (lane !== undefined) lane.oldestRunMs = runStartedAtMs;
  }

  /** Takes a record of the `held` log in. */
  note(offset: number, entry: HeldEntry): void {
    if (entry.kind === "released") return this.release(entry.destinationId, entry.offsets);
    const { destinationId, runStartedAtMs } = entry.task;
    const lane = this.#lanes.get(destinationId) ?? {
      offsets: new Set<number>(),
      lastOffset: -1,
      oldestRunMs: runStartedAtMs,
    };
    this.#lanes.set(destinationId, lane);
    if (lane.offsets.has(offset)) return;
    this.#size += 1;
    lane.offsets.add(offset);
    lane.oldestRunMs = Math.min(lane.oldestRunMs, runStartedAtMs);
    // Appends may resolve in another order than they were written in.
    if (offset < lane.lastOffset)
      lane.offsets = new Set([...lane.offsets].sort((one, other) => one - other));
    lane.lastOffset = Math.max(lane.lastOffset, offset);
  }

  /** The next offsets of a destination, at most `count`, ascending. */
  next(destinationId: string, count: number): number[] {
    const offsets: number[] = [];
    for (const offset of this.#lanes.get(destinationId)?.offsets ?? []) {
      if (offsets.length === count) break;
      offsets.push(offset);
    }
    return offsets;
  }

  release(destinationId: string, offsets: readonly number[]): void {
    const lane = this.#lanes.get(destinationId);
    if (lane === undefined) return;
    for (const offset of offsets) if (lane.offsets.delete(offset)) this.#size -= 1;
    if (lane.offsets.size === 0) this.#lanes.delete(destinationId);
  }

  /** The lowest offset that is still needed; undefined when nothing is held. */
  lowest(): number | undefined {
    let lowest: number | undefined;
    for (const { offsets } of this.#lanes.values())
      for (const offset of offsets) {
        if (lowest === undefined || offset < lowest) lowest = offset;
        break;
      }
    return lowest;
  }
}
