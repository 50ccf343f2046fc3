import { pause, type Clock } from "../domain/clock.ts";
import type { ConfigCache } from "../management/config-cache.ts";

/** Pause after the store went down while being read, or after another gap: reading again at once would keep a core busy. */
const READ_AGAIN_MS = 5_000;

/**
 * Returns what to do when changes may have been missed, as at the start: it fills the cache once, and afterwards
 * reloads what the cache holds, until the store has answered throughout.
 */
export function readAfterGaps(
  cache: Pick<ConfigCache, "invalidateAll" | "warm" | "reload">,
  clock: Clock,
  stopped: AbortSignal,
): () => void {
  let isFilled = false;
  let isReading = false;
  let isStale = false;

  async function read(): Promise<void> {
    isReading = true;
    while (isStale && !stopped.aborted) {
      isStale = false;
      isFilled ||= await cache.warm();
      if (!isFilled || !(await cache.reload())) isStale = true;
      if (isStale) await pause(clock, READ_AGAIN_MS, stopped);
    }
    isReading = false;
  }

  return () => {
    isStale = true;
    cache.invalidateAll();
    if (!isReading) void read();
  };
}
