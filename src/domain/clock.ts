/** Time and randomness as arguments: the pipeline can be run under simulated time. */
export interface Clock {
  /** Wall clock, ms since the epoch. */
  now(): number;
  /** Monotonic, ms; only differences mean anything. */
  monotonic(): number;
  /** Calls back after `delayMs`; the returned function cancels. */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** Uniform in [0, 1). */
export type Random = () => number;

/** Resolves after so long by the clock; it cannot be called off. */
export function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.schedule(delayMs, resolve);
  });
}
