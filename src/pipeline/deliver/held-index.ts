import type { HeldEntry } from "./held-codec.ts";

interface HeldLane {
  /** When the run of each held task began, ms since the epoch, by its offset, ascending. */
  runs: Map<number, number>;
  lastOffset: number;
  /** No run that is held here began earlier, ms since the epoch. */
  oldestRunMs: number;
}

/** Where the held tasks of each destination are, and how old: two numbers each, the bodies stay in the log. */
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

  /**
   * The first offsets, at most `count`, ascending, of runs that began before this time: tasks are held in another order than
   * their runs began. All are looked through only where a bound does not tell that there are none.
   */
  begunBefore(destinationId: string, timeMs: number, count: number): number[] {
    const lane = this.#lanes.get(destinationId);
    const offsets: number[] = [];
    if (lane === undefined || lane.oldestRunMs >= timeMs) return offsets;
    let oldestRunMs = Number.POSITIVE_INFINITY;
    for (const [offset, runStartedAtMs] of lane.runs) {
      if (runStartedAtMs < timeMs && offsets.push(offset) === count) return offsets;
      oldestRunMs = Math.min(oldestRunMs, runStartedAtMs);
    }
    lane.oldestRunMs = oldestRunMs;
    return offsets;
  }

  /** Takes a record of the `held` log in. */
  note(offset: number, entry: HeldEntry): void {
    if (entry.kind === "released") return this.release(entry.destinationId, entry.offsets);
    const { destinationId, runStartedAtMs } = entry.task;
    const lane = this.#lanes.get(destinationId) ?? {
      runs: new Map<number, number>(),
      lastOffset: -1,
      oldestRunMs: runStartedAtMs,
    };
    this.#lanes.set(destinationId, lane);
    if (lane.runs.has(offset)) return;
    this.#size += 1;
    lane.runs.set(offset, runStartedAtMs);
    lane.oldestRunMs = Math.min(lane.oldestRunMs, runStartedAtMs);
    // Appends may resolve in another order than they were written in.
    if (offset < lane.lastOffset) lane.runs = ascending(lane.runs);
    lane.lastOffset = Math.max(lane.lastOffset, offset);
  }

  /** The next offsets of a destination, at most `count`, ascending. */
  next(destinationId: string, count: number): number[] {
    const offsets: number[] = [];
    for (const offset of this.#lanes.get(destinationId)?.runs.keys() ?? []) {
      if (offsets.length === count) break;
      offsets.push(offset);
    }
    return offsets;
  }

  release(destinationId: string, offsets: readonly number[]): void {
    const lane = this.#lanes.get(destinationId);
    if (lane === undefined) return;
    for (const offset of offsets) if (lane.runs.delete(offset)) this.#size -= 1;
    if (lane.runs.size === 0) this.#lanes.delete(destinationId);
  }

  /** The lowest offset that is still needed; undefined when nothing is held. */
  lowest(): number | undefined {
    let lowest: number | undefined;
    for (const { runs } of this.#lanes.values())
      for (const offset of runs.keys()) {
        if (lowest === undefined || offset < lowest) lowest = offset;
        break;
      }
    return lowest;
  }
}

function ascending(runs: ReadonlyMap<number, number>): Map<number, number> {
  const sorted = new Map<number, number>();
  for (const offset of [...runs.keys()].sort((one, other) => one - other))
    sorted.set(offset, runs.get(offset)!);
  return sorted;
}
