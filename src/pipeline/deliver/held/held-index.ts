import type { HeldEntry } from "./held-codec.ts";

interface HeldLane {
  /** When the run of each held task began, ms since the epoch, by its offset. */
  readonly runs: Map<number, number>;
  /** Ascending; released ones are removed from time to time. */
  offsets: number[];
  /** No offset before this index is held any more. */
  head: number;
  /** No run held here began before this, ms since the epoch. */
  oldestRunMs: number;
}

/** How many more released offsets than held ones a lane's list may contain. */
const MOST_RELEASED = 1_024;

/** Where the held tasks of each destination are, and how old: two numbers per task, while the bodies stay in the log. */
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
   * Returns the first offsets, at most `count`, ascending, of runs that began before `timeMs`. Tasks are not held in the order
   * their runs began, so all are searched unless the bound `oldestRunMs` shows that there are none.
   */
  begunBefore(destinationId: string, timeMs: number, count: number): number[] {
    const lane = this.#lanes.get(destinationId);
    const offsets: number[] = [];
    if (lane === undefined || lane.oldestRunMs >= timeMs) return offsets;
    let oldestRunMs = Number.POSITIVE_INFINITY;
    for (const offset of heldOffsets(lane)) {
      const runStartedAtMs = lane.runs.get(offset)!;
      if (runStartedAtMs < timeMs && offsets.push(offset) === count) return offsets;
      oldestRunMs = Math.min(oldestRunMs, runStartedAtMs);
    }
    lane.oldestRunMs = oldestRunMs;
    return offsets;
  }

  note(offset: number, entry: HeldEntry): void {
    if (entry.kind === "released") return this.release(entry.destinationId, entry.offsets);
    const { destinationId, runStartedAtMs } = entry.task;
    const lane = this.#lanes.get(destinationId) ?? {
      runs: new Map<number, number>(),
      offsets: [],
      head: 0,
      oldestRunMs: runStartedAtMs,
    };
    this.#lanes.set(destinationId, lane);
    if (lane.runs.has(offset)) return;
    this.#size += 1;
    lane.runs.set(offset, runStartedAtMs);
    lane.oldestRunMs = Math.min(lane.oldestRunMs, runStartedAtMs);
    insert(lane, offset);
  }

  /** Returns the next offsets of a destination, at most `count`, ascending. */
  next(destinationId: string, count: number): number[] {
    const offsets: number[] = [];
    const lane = this.#lanes.get(destinationId);
    if (lane === undefined) return offsets;
    for (const offset of heldOffsets(lane)) {
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
    else forgetReleased(lane);
  }

  /** Returns the lowest offset that is still needed; undefined if nothing is held. */
  lowest(): number | undefined {
    let lowest: number | undefined;
    for (const lane of this.#lanes.values())
      for (const offset of heldOffsets(lane)) {
        if (lowest === undefined || offset < lowest) lowest = offset;
        break;
      }
    return lowest;
  }
}

/**
 * Inserts an offset in order. Appends may resolve in a different order than they were written in, and in a burst most do: two
 * batches written piece by piece interleave. Such an offset is close to the last one, so few have to move.
 */
function insert(lane: HeldLane, offset: number): void {
  const { offsets } = lane;
  let at = offsets.length;
  if (at > 0 && offsets[at - 1]! >= offset) {
    let low = 0;
    while (low < at) {
      const middle = (low + at) >>> 1;
      if (offsets[middle]! < offset) low = middle + 1;
      else at = middle;
    }
  }
  if (offsets[at] !== offset) offsets.splice(at, 0, offset);
  lane.head = Math.min(lane.head, at);
}

/** Yields the held offsets, ascending. */
function* heldOffsets(lane: HeldLane): Generator<number> {
  const { offsets, runs } = lane;
  while (lane.head < offsets.length && !runs.has(offsets[lane.head]!)) lane.head += 1;
  for (let at = lane.head; at < offsets.length; at += 1)
    if (runs.has(offsets[at]!)) yield offsets[at]!;
}

function forgetReleased(lane: HeldLane): void {
  if (lane.offsets.length <= 2 * lane.runs.size + MOST_RELEASED) return;
  lane.offsets = lane.offsets.filter((offset) => lane.runs.has(offset));
  lane.head = 0;
}
