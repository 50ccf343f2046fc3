/** Time and randomness as arguments, so that the pipeline can run under simulated time. */
export interface Clock {
  /** Wall clock, ms since the epoch. */
  now(): number;
  /** Monotonic, ms; only differences mean anything. */
  monotonic(): number;
  /** Calls back after `delayMs`; the returned function cancels. */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** Timers of the real clock. They keep the process alive: whoever schedules one cancels it on stop. */
export const TIMERS: Pick<Clock, "schedule"> = {
  schedule: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** Uniform in [0, 1). */
export type Random = () => number;

/** Resolves after `delayMs` by the clock, or as soon as `until` is aborted. */
export function pause(clock: Clock, delayMs: number, until?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (until?.aborted === true) return resolve();
    const cancel = clock.schedule(delayMs, () => {
      until?.removeEventListener("abort", onAbort);
      resolve();
    });
    const onAbort = (): void => {
      cancel();
      resolve();
    };
    until?.addEventListener("abort", onAbort, { once: true });
  });
}
