import type { RateLimitWindow } from "./enums.ts";

const WINDOW_MS: Readonly<Record<RateLimitWindow, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
};
/** Up to this maximum every start has an entry of its own; above it, neighbours share one. */
const EXACT_ENTRIES = 500;

export function rateWindowMs(window: RateLimitWindow): number {
  return WINDOW_MS[window];
}

/** How soon a limit lets tries go: how many an hour, and the length of the window that they may have to wait out. */
export interface LimitPace {
  readonly perHour: number;
  readonly windowMs: number;
}

export const UNLIMITED: LimitPace = { perHour: Number.POSITIVE_INFINITY, windowMs: 0 };

export function paceOf({
  rateLimitMax: max,
  rateLimitWindow: window,
}: {
  readonly rateLimitMax: number | null;
  readonly rateLimitWindow: RateLimitWindow | null;
}): LimitPace {
  if (max === null || window === null) return UNLIMITED;
  return { perHour: (max * WINDOW_MS.hour) / WINDOW_MS[window], windowMs: WINDOW_MS[window] };
}

/** Returns whether tries that `other` put off may go sooner under `pace`: it allows more in the long run, or has a shorter window. */
export function mayGoSooner(pace: LimitPace, other: LimitPace): boolean {
  return pace.perHour > other.perHour || pace.windowMs < other.windowMs;
}

/**
 * Returns how long after its start a token comes back, in ms: longer than the window, since the receiver's clock and arrival
 * times count, not ours.
 */
export function tokenReturnMs(window: RateLimitWindow): number {
  const windowMs = rateWindowMs(window);
  return windowMs + Math.min(windowMs * 0.05, 1_000);
}

/** Starts counted together: `[time of the last one, how many]`. */
export type Starts = readonly [timeMs: number, count: number];

/**
 * Counts starts in a sliding window so that no window of `spanMs` ever holds more than `max`. Times never go back: an earlier
 * one counts as the latest known. Memory is bounded: for a large `max` neighbouring starts share one entry that carries the
 * latest time, which errs on the strict side.
 */
export class SlidingWindow {
  #entries: [timeMs: number, count: number][] = [];
  #head = 0;
  #total = 0;
  /** When the newest entry began: it grows for at most one grain. */
  #newestBeganMs = 0;
  readonly #spanMs: number;
  readonly #grainMs: number;
  readonly #max: number;

  constructor(spanMs: number, max: number) {
    this.#spanMs = spanMs;
    this.#max = max;
    this.#grainMs = max > EXACT_ENTRIES ? spanMs / EXACT_ENTRIES : 0;
  }

  get lastMs(): number {
    return this.#entries.at(-1)?.[0] ?? 0;
  }

  /** Returns how many starts still count at `nowMs`. */
  used(nowMs: number): number {
    this.#expire(nowMs);
    return this.#total;
  }

  /** Returns the earliest time, not before `nowMs`, at which `count` more may start beside `others` that are counted elsewhere. */
  earliest(nowMs: number, count = 1, others = 0): number {
    this.#expire(nowMs);
    let free = this.#max - this.#total - others;
    let atMs = nowMs;
    for (let index = this.#head; free < count && index < this.#entries.length; index += 1) {
      const entry = this.#entries[index]!;
      free += entry[1];
      atMs = Math.max(atMs, entry[0] + this.#spanMs);
    }
    return free < count ? Number.POSITIVE_INFINITY : atMs;
  }

  add(timeMs: number, count = 1): void {
    if (count <= 0) return;
    const atMs = Math.max(timeMs, this.lastMs);
    const newest = this.#entries.at(-1);
    this.#total += count;
    if (
      newest !== undefined &&
      this.#head < this.#entries.length &&
      atMs - this.#newestBeganMs <= this.#grainMs
    ) {
      newest[0] = atMs;
      newest[1] += count;
      return;
    }
    this.#newestBeganMs = atMs;
    this.#entries.push([atMs, count]);
  }

  /** Claims the next free start, not before `nowMs` or any earlier claim; returns its time. */
  claim(nowMs: number): number {
    const atMs = this.earliest(Math.max(nowMs, this.lastMs));
    this.add(atMs);
    return atMs;
  }

  /** Returns all counted starts, oldest first. */
  starts(nowMs: number): Starts[] {
    this.#expire(nowMs);
    return this.#entries.slice(this.#head).map(([timeMs, count]): Starts => [timeMs, count]);
  }

  #expire(nowMs: number): void {
    for (;;) {
      const entry = this.#entries[this.#head];
      if (entry === undefined || entry[0] + this.#spanMs > nowMs) break;
      this.#total -= entry[1];
      this.#head += 1;
    }
    if (this.#head > 64 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
  }
}
