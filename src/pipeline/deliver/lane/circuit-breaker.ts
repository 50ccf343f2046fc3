import type { BreakerOptions } from "../delivery-options.ts";

const TIMEOUT_WEIGHT = 4;

/** `open`: put tries off until `untilMs`. `half_open`: one probe may go, the rest wait for it. */
export type CircuitState =
  | { readonly kind: "closed" }
  | { readonly kind: "open"; readonly sinceMs: number; readonly untilMs: number }
  | { readonly kind: "half_open"; readonly probing: boolean };

export interface Failure {
  readonly timedOut: boolean;
  /** When the run began (wall clock, ms) if this was its first try, otherwise null. */
  readonly newRunMs: number | null;
}

/** Failures in a row. */
interface Streak {
  readonly weight: number;
  readonly fromMs: number;
  readonly toMs: number;
}

const NONE: Streak = { weight: 0, fromMs: Infinity, toMs: -Infinity };

/**
 * Opens after consecutive failures that weigh enough and span long enough. Times are of one steady clock, in ms, unless stated
 * otherwise.
 */
export class CircuitBreaker {
  readonly #options: BreakerOptions;
  #tries = NONE;
  /** Failed first tries only, by when they failed. */
  #firstTries = NONE;
  /** The same tries, by when their runs began. */
  #newRuns = NONE;
  #openUntilMs: number | null = null;
  #openMs: number;
  #probing = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
    this.#openMs = options.openMs;
  }

  get isOpen(): boolean {
    return this.#openUntilMs !== null;
  }

  state(nowMs: number): CircuitState {
    if (this.#openUntilMs === null) return { kind: "closed" };
    if (nowMs < this.#openUntilMs)
      return {
        kind: "open",
        sinceMs: this.#openUntilMs - this.#openMs,
        untilMs: this.#openUntilMs,
      };
    return { kind: "half_open", probing: this.#probing };
  }

  /** Returns how long it has been failing without a success, in ms. */
  failingForMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#tries.fromMs);
  }

  /** Notes that a try starts; in the half-open state it is the probe. */
  onStart(): void {
    if (this.#openUntilMs !== null) this.#probing = true;
  }

  onSuccess(): void {
    this.#forget();
    this.#openUntilMs = null;
    this.#openMs = this.#options.openMs;
    this.#probing = false;
  }

  onFailure(nowMs: number, { timedOut, newRunMs }: Failure): void {
    const weight = timedOut ? TIMEOUT_WEIGHT : 1;
    this.#tries = longer(this.#tries, weight, nowMs);
    if (newRunMs !== null) {
      this.#firstTries = longer(this.#firstTries, weight, nowMs);
      this.#newRuns = longer(this.#newRuns, weight, newRunMs);
    }
    if (this.#openUntilMs !== null) {
      // Tries that began before the circuit opened may still fail while it is open: only a probe's failure counts.
      if (!this.#probing) return;
      this.#probing = false;
      this.#openMs = Math.min(this.#options.maxOpenMs, this.#openMs * 2);
      this.#openUntilMs = nowMs + this.#openMs;
      return;
    }
    const { failures, minStreakMs, minNewRunsMs } = this.#options;
    const isEnough = (streak: Streak, spanMs: number): boolean =>
      streak.weight >= failures && streak.toMs - streak.fromMs >= spanMs;
    // The runs of a backlog began long ago, and all its first tries may fail within milliseconds.
    const newRunsFail =
      isEnough(this.#firstTries, minNewRunsMs) && isEnough(this.#newRuns, minNewRunsMs);
    if (!newRunsFail && !isEnough(this.#tries, minStreakMs)) return;
    this.#openUntilMs = nowMs + this.#openMs;
    this.#probing = false;
  }

  /** Lets a probe go at once: the receiver may be another one, or fixed. */
  onReceiverChanged(nowMs: number): void {
    this.#forget();
    this.#openMs = this.#options.openMs;
    this.#probing = false;
    if (this.#openUntilMs !== null) this.#openUntilMs = Math.min(this.#openUntilMs, nowMs);
  }

  /** Notes a try that ended without a verdict on the receiver (the process cut it off). */
  onAbandoned(): void {
    this.#probing = false;
  }

  #forget(): void {
    this.#tries = NONE;
    this.#firstTries = NONE;
    this.#newRuns = NONE;
  }
}

function longer(streak: Streak, weight: number, atMs: number): Streak {
  return {
    weight: streak.weight + weight,
    fromMs: Math.min(streak.fromMs, atMs),
    toMs: Math.max(streak.toMs, atMs),
  };
}
