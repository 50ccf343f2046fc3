import { expect, test } from "vitest";
import {
  findDeadEvents,
  type DeadEvent,
  type SearchEvents,
  type TimeSpan,
} from "../../src/cli/find-dead-events.ts";

const PAGE = 100;
const NOON_MS = Date.UTC(2026, 10, 26, 12);

interface Dead {
  readonly id: string;
  readonly atMs: number;
}

/** Answers as the API does; `lookedAt` counts the events that the store looks for, page by page. */
function searchOf(dead: readonly Dead[], onSearch: () => void = () => undefined) {
  let lookedAt = 0;
  const search: SearchEvents = async ({ fromMs, untilMs }, page) => {
    onSearch();
    const found = dead.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs).toReversed();
    lookedAt += found.length;
    const from = (page - 1) * PAGE;
    return {
      events: found.slice(from, from + PAGE).map(toEvent),
      total: found.length,
      hasNext: from + PAGE < found.length,
    };
  };
  return { search, lookedAt: () => lookedAt };
}

function toEvent({ id, atMs }: Dead): DeadEvent {
  return { id, receivedAtMs: atMs, summary: null };
}

async function idsFound(search: SearchEvents, span: TimeSpan): Promise<string[]> {
  const ids: string[] = [];
  for await (const part of findDeadEvents(search, span)) ids.push(...part.map(({ id }) => id));
  return ids;
}

function deadAt(...timesMs: readonly number[]): Dead[] {
  return timesMs
    .toSorted((a, b) => a - b)
    .map((atMs, index) => ({ id: `evt_${String(index).padStart(6, "0")}`, atMs }));
}

const ALL: TimeSpan = { fromMs: 0, untilMs: NOON_MS };

test("one that died long before all others is found", async () => {
  const burst = Array.from({ length: 1_200 }, (_, n) => NOON_MS - 1 - n * 5_003);
  const dead = deadAt(1_000, ...burst);
  expect(await idsFound(searchOf(dead).search, ALL)).toEqual(dead.map(({ id }) => id));
});

test("regression: of 20,000 dead events each is looked for some times, not once with every page", async () => {
  const spread = Array.from({ length: 17_000 }, (_, n) => NOON_MS - 1 - n * 5_003);
  const burst = Array.from({ length: 3_000 }, () => NOON_MS - 40_000_000);
  const dead = deadAt(...spread, ...burst);
  const { search, lookedAt } = searchOf(dead);
  expect(await idsFound(search, ALL)).toEqual(dead.map(({ id }) => id));
  expect(lookedAt()).toBeLessThan(30 * dead.length);
});

test("takes the first moment of the span and leaves out its end", async () => {
  const { search } = searchOf(deadAt(999, 1_000, 1_999, 2_000));
  expect(await idsFound(search, { fromMs: 1_000, untilMs: 2_000 })).toEqual([
    "evt_000001",
    "evt_000002",
  ]);
});

test("what died in the moment at which a span is halved is in one of the halves", async () => {
  const dead = deadAt(...Array.from({ length: 800 }, (_, n) => n * 10));
  const { search } = searchOf(dead);
  expect(await idsFound(search, { fromMs: 0, untilMs: 8_000 })).toEqual(dead.map(({ id }) => id));
});

test("finds what died while it looked: counts from before are no more than a hint", async () => {
  const dead = deadAt(...Array.from({ length: 2_000 }, (_, n) => NOON_MS - 1_000_000 + n * 400));
  const late: Dead[] = [];
  let searches = 0;
  const grows = searchOf(late, () => {
    searches += 1;
    // The older half dies after the whole was counted, so that the newer one is expected to be empty.
    if (searches === 1) late.push(...dead.slice(1_000));
    if (searches === 2) late.unshift(...dead.slice(0, 1_000));
  });
  expect(await idsFound(grows.search, ALL)).toEqual(dead.map(({ id }) => id));
});

test("an event that is on two pages, since another died meanwhile, is taken once", async () => {
  const pages = [
    ["c", "b"],
    ["b", "a"],
  ];
  const search: SearchEvents = async (_span, page) => ({
    events: pages[page - 1]!.map((id) => toEvent({ id, atMs: 1 })),
    total: 4,
    hasNext: page < 2,
  });
  expect(await idsFound(search, { fromMs: 0, untilMs: 10 })).toEqual(["a", "b", "c"]);
});
