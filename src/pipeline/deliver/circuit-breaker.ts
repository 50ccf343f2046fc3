import type { BreakerOptions } from "./ports.ts";

const TIMEOUT_WEIGHT = 4;

/**
 * `open`: put tries off until `untilMs`. `half_open`: one probe may go, the rest waits for it.
 */
export type CircuitState =
  | { readonly kind: "closed" }
  | { readonly kind: "open"; readonly untilMs: number }
  | { readonly kind: "half_open"; readonly probing: boolean };

/** Opens after failures in a row that weigh enough and span long enough. Times are of one steady clock, in ms. */
export class CircuitBreaker {
  readonly #options: BreakerOptions;
  #weight = 0;
  #streakBeganMs = 0;
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
    if (nowMs < this.#openUntilMs) return { kind: "open", untilMs: this.#openUntilMs };
    return { kind: "half_open", probing: this.#probing };
  }

  /** A try starts; in the half-open state it is the probe. */
  onStart(): void {
    if (this.#openUntilMs !== null) this.#probing = true;
  }

  onSuccess(): void {
    this.#weight = 0;
    this.#openUntilMs = null;
    this.#openMs = this.#options.openMs;
    this.#probing = false;
  }

  onFailure(nowMs: number, timedOut: boolean): void {
    if (this.#weight === 0) this.#streakBeganMs = nowMs;
    this.#weight += timedOut ? TIMEOUT_WEIGHT : 1;
    if (this.#openUntilMs !== null) {
      // Tries that began before the circuit opened may still fail while it is open: only a probe's failure counts.
      if (!this.#probing) return;
      this.#probing = false;
      this.#openMs = Math.min(this.#options.maxOpenMs, this.#openMs * 2);
      this.#openUntilMs = nowMs + this.#openMs;
      return;
    }
    if (this.#weight < this.#options.failures) return;
    if (nowMs - this.#streakBeganMs < this.#options.minStreakMs) return;
    this.#openUntilMs = nowMs + this.#openMs;
    this.#probing = false;
  }

  /** A try ended without a verdict on the receiver (it was never sent). */
  onAbandoned(): void {
    this.#probing = false;
  }
}
