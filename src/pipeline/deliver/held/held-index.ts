import type { HeldEntry } from "./held-codec.ts";

/** The held tasks of one destination. */
interface Holds {
  /** When the run of each held task began, ms since the epoch, by its offset. */
  readonly runs: Map<number, number>;
  /** Ascending; released ones are removed from time to time. */
  offsets: number[];
  /** No offset before this index is held any more. */
  head: number;
  /** No run held here began before this, ms since the epoch. */
  oldestRunMs: number;
}

/** How many more released offsets than held ones a destination's list may contain. */
const MAX_RELEASED = 1_024;

/** Where the held tasks of each destination are, and how old: two numbers per task, while the bodies stay in the log. */
export class HeldIndex {
  readonly #holds = new Map<string, Holds>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  destinations(): string[] {
    return [...this.#holds.keys()];
  }

  has(destinationId: string): boolean {
    return this.#holds.has(destinationId);
  }

  /**
   * Returns the first offsets, at most `count`, ascending, of runs that began before `timeMs`. Tasks are not held in the order
   * their runs began, so all are searched unless the bound `oldestRunMs` shows that there are none.
   */
  begunBefore(destinationId: string, timeMs: number, count: number): number[] {
    const holds = this.#holds.get(destinationId);
    const offsets: number[] = [];
    if (holds === undefined || holds.oldestRunMs >= timeMs) return offsets;
    let oldestRunMs = Number.POSITIVE_INFINITY;
    for (const offset of heldOffsets(holds)) {
      const runStartedAtMs = holds.runs.get(offset)!;
      if (runStartedAtMs < timeMs && offsets.push(offset) === count) return offsets;
      oldestRunMs = Math.min(oldestRunMs, runStartedAtMs);
    }
    holds.oldestRunMs = oldestRunMs;
    return offsets;
  }

  note(offset: number, entry: HeldEntry): void {
    if (entry.kind === "released") return this.release(entry.destinationId, entry.offsets);
    const { destinationId, runStartedAtMs } = entry.task;
    const holds = this.#holds.get(destinationId) ?? {
      runs: new Map<number, number>(),
      offsets: [],
      head: 0,
      oldestRunMs: runStartedAtMs,
    };
    this.#holds.set(destinationId, holds);
    if (holds.runs.has(offset)) return;
    this.#size += 1;
    holds.runs.set(offset, runStartedAtMs);
    holds.oldestRunMs = Math.min(holds.oldestRunMs, runStartedAtMs);
    insert(holds, offset);
  }

  /** Returns the next offsets of a destination, at most `count`, ascending. */
  next(destinationId: string, count: number): number[] {
    const offsets: number[] = [];
    const holds = this.#holds.get(destinationId);
    if (holds === undefined) return offsets;
    for (const offset of heldOffsets(holds)) {
      if (offsets.length === count) break;
      offsets.push(offset);
    }
    return offsets;
  }

  release(destinationId: string, offsets: readonly number[]): void {
    const holds = this.#holds.get(destinationId);
    if (holds === undefined) return;
    for (const offset of offsets) if (holds.runs.delete(offset)) this.#size -= 1;
    if (holds.runs.size === 0) this.#holds.delete(destinationId);
    else forgetReleased(holds);
  }

  /** Returns the lowest offset that is still needed; undefined if nothing is held. */
  lowest(): number | undefined {
    let lowest: number | undefined;
    for (const holds of this.#holds.values())
      for (const offset of heldOffsets(holds)) {
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
function insert(holds: Holds, offset: number): void {
  const { offsets } = holds;
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
  holds.head = Math.min(holds.head, at);
}

/** Yields the held offsets, ascending. */
function* heldOffsets(holds: Holds): Generator<number> {
  const { offsets, runs } = holds;
  while (holds.head < offsets.length && !runs.has(offsets[holds.head]!)) holds.head += 1;
  for (let at = holds.head; at < offsets.length; at += 1)
    if (runs.has(offsets[at]!)) yield offsets[at]!;
}

function forgetReleased(holds: Holds): void {
  if (holds.offsets.length <= 2 * holds.runs.size + MAX_RELEASED) return;
  holds.offsets = holds.offsets.filter((offset) => holds.runs.has(offset));
  holds.head = 0;
}
