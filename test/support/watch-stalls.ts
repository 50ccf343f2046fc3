const TICK_MS = 5;

export interface StallWatch extends Disposable {
  /** The longest time that the loop of this process did not turn since the watch began. */
  longestMs(): number;
}

/** For bounds on time that also passes while the test's own process waits for a core: they allow for that much more. */
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
