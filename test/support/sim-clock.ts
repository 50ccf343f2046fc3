import type { Clock } from "../../src/domain/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly order: number;
  readonly callback: () => void;
  cancelled: boolean;
}

/** Simulated time: nothing really waits; timers fire in order of time, then of scheduling. */
export class SimClock implements Clock {
  #nowMs: number;
  #setByMs = 0;
  #order = 0;
  readonly #heap: Timer[] = [];

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs + this.#setByMs;
  }

  /** Shifts the wall clock: timers and monotonic time are unaffected. */
  setBy(byMs: number): void {
    this.#setByMs += byMs;
  }

  monotonic(): number {
    return this.#nowMs;
  }

  schedule(delayMs: number, callback: () => void): () => void {
    const timer: Timer = {
      atMs: this.#nowMs + Math.max(0, Number.isFinite(delayMs) ? delayMs : 1e12),
      order: (this.#order += 1),
      callback,
      cancelled: false,
    };
    this.#push(timer);
    return () => {
      timer.cancelled = true;
    };
  }

  /** How many timers are scheduled and not cancelled. */
  get waiting(): number {
    return this.#heap.filter(({ cancelled }) => !cancelled).length;
  }

  /** Resolves after `delayMs` of simulated time. */
  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(delayMs, resolve);
    });
  }

  /** Lets time pass while nothing runs, as in a frozen process: timers become late. */
  standStill(durationMs: number): void {
    this.#nowMs += durationMs;
  }

  /** Runs everything that is due within `durationMs`. */
  async advance(durationMs: number): Promise<void> {
    const endMs = this.#nowMs + durationMs;
    await settle();
    for (;;) {
      const next = this.#heap[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#pop();
      if (next.cancelled) continue;
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.callback();
      await settle();
    }
    this.#nowMs = endMs;
  }

  /** Advances until the condition holds. @throws {Error} when it does not within `limitMs` of simulated time */
  async until(condition: () => boolean, limitMs: number, stepMs = 50): Promise<void> {
    const endMs = this.#nowMs + limitMs;
    await settle();
    while (!condition()) {
      if (this.#nowMs >= endMs) throw new Error(`not reached within ${limitMs} ms`);
      const next = this.#heap[0];
      const toNext = next === undefined ? limitMs : next.atMs - this.#nowMs;
      await this.advance(Math.min(endMs - this.#nowMs, Math.max(stepMs, toNext)));
    }
  }

  #push(timer: Timer): void {
    const heap = this.#heap;
    heap.push(timer);
    let at = heap.length - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(timer, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = timer;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child += 1;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}

function before(one: Timer, other: Timer): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

/** Lets every promise that can resolve do so. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** mulberry32: the same seed, the same numbers. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
