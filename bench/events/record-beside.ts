import { setTimeout as sleep } from "node:timers/promises";
import type { EventStoreWriter } from "../../src/domain/event-store.ts";
import { fill } from "./fill.ts";

/**
 * Records `perSecond` events a second until disposed of, in one batch each second as the recorder does under load. Their
 * times lie in the last two seconds before `endMs`, so they belong to the open day.
 */
export function recordBeside(
  writer: EventStoreWriter,
  { perSecond, endMs }: { readonly perSecond: number; readonly endMs: number },
): AsyncDisposable {
  const stopped = new AbortController();
  const run = async (): Promise<void> => {
    for (let batch = 1; !stopped.signal.aborted; batch += 1) {
      const nextAt = performance.now() + 1_000;
      await fill(writer, {
        seed: Date.now() + batch,
        count: perSecond,
        endMs,
        days: 2 / 86_400,
      });
      await sleep(Math.max(0, nextAt - performance.now()), undefined, {
        signal: stopped.signal,
      }).catch(() => undefined);
    }
  };
  const running = run();
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort();
      await running;
    },
  };
}
