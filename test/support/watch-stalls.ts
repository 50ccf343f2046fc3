const TICK_MS = 5;

export interface StallWatch extends Disposable {
  /** Returns the longest time since the watch began during which this process's event loop did not turn. */
  longestMs(): number;
}

/** Watches how long the test's own process waited for a core, for time bounds that must allow for that much more. */
export function watchStalls(): StallWatch {
  let longestMs = 0;
  let tickedMs = performance.now();
  const look = (): void => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - tickedMs - TICK_MS);
    tickedMs = nowMs;
  };
  const ticking = setInterval(look, TICK_MS);
  return {
    longestMs() {
      look();
      return longestMs;
    },
    [Symbol.dispose]: () => clearInterval(ticking),
  };
}
