import { describe, expect, it } from "vitest";
import { readAfterGaps } from "../../src/app/read-after-gaps.ts";
import { SimClock } from "../support/sim-clock.ts";

/** Makes a cache that records what it is asked, and whose store answers or not, by `state`. */
function cacheThatAnswers() {
  const asked: string[] = [];
  const state = { answers: true };
  const ask = (what: string) => async () => {
    asked.push(what);
    return state.answers;
  };
  return {
    asked,
    state,
    cache: {
      invalidateAll: () => void asked.push("invalidate"),
      warm: ask("warm"),
      reload: ask("reload"),
    },
  };
}

describe("after a gap in what the store tells", () => {
  it("the cache is filled once, and then what it holds is read anew each time", async () => {
    const clock = new SimClock();
    const { cache, asked } = cacheThatAnswers();
    const onGap = readAfterGaps(cache, clock, new AbortController().signal);
    onGap();
    await clock.advance(60_000);
    expect(asked).toEqual(["invalidate", "warm", "reload"]);
    onGap();
    onGap();
    await clock.advance(60_000);
    // The second gap came while the cache was being read after the first.
    expect(asked.slice(3)).toEqual(["invalidate", "reload", "invalidate", "reload"]);
  });

  it("a store that went away meanwhile is asked again until it answers, or the process stops", async () => {
    const clock = new SimClock();
    const { cache, asked, state } = cacheThatAnswers();
    const stopped = new AbortController();
    const onGap = readAfterGaps(cache, clock, stopped.signal);
    state.answers = false;
    onGap();
    await clock.advance(12_000);
    expect(asked).toEqual(["invalidate", "warm", "warm", "warm"]);
    state.answers = true;
    await clock.advance(10_000);
    expect(asked.slice(4)).toEqual(["warm", "reload"]);
    state.answers = false;
    onGap();
    await clock.advance(6_000);
    stopped.abort();
    await clock.advance(60_000);
    expect(asked.slice(6)).toEqual(["invalidate", "reload", "reload"]);
  });
});
