import { describe, expect, test } from "vitest";
import type { EventFilter } from "../../../src/domain/event-query.ts";
import { EventStoreError, type EventStoreReader } from "../../../src/domain/event-store.ts";
import type { EventRecord } from "../../../src/domain/event.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";
import {
  makeEventQueries,
  type EventQueryPorts,
} from "../../../src/pipeline/query/make-event-queries.ts";
import { searchTerms } from "../../../src/pipeline/query/search-terms.ts";
import { BASE_TIME_MS, makeAttempt, makeEvent } from "../../support/clickhouse-events.ts";

/** Makes a clock that jumps to the next callback at once. */
function makeJumpingClock(startMs: number) {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    monotonic: () => nowMs,
    schedule(delayMs: number, callback: () => void) {
      nowMs += delayMs;
      queueMicrotask(callback);
      return () => undefined;
    },
  };
}

function makeStore(over: Partial<EventStoreReader>): EventStoreReader {
  const event = over.event ?? (async () => null);
  return {
    page: async () => ({ items: [], total: 0 }),
    count: async () => 0,
    facets: async () => ({
      totalEvents: 0,
      byProvider: [],
      bySignatureValid: [],
      byAttemptStatus: [],
    }),
    event,
    smallEvents: async (orgId, keys) => {
      const found = new Map<string, EventRecord>();
      for (const key of keys) {
        const one = await event(orgId, key);
        if (one !== null) found.set(key.id, one);
      }
      return found;
    },
    existing: async () => new Set(),
    fannedOut: async () => new Set(),
    attempts: async () => [],
    outcomes: async () => ({ attempts: [], destinationIds: null }),
    summaries: async () => new Map(),
    ...over,
  };
}

type Ports = Omit<EventQueryPorts, "destinationsOf"> & Partial<EventQueryPorts>;

/** Makes event queries over endpoints without destinations, unless told otherwise. */
const eventQueries = (ports: Ports) =>
  makeEventQueries({ destinationsOf: () => ({ kind: "missing" }), ...ports });

describe("a question of several statements", () => {
  test("regression: is answered within its time in all, and what still runs is called off: a page and then a count took 22 s", async () => {
    let calledOff = 0;
    const waiting = async (signal: AbortSignal | undefined): Promise<never> =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => {
          calledOff += 1;
          reject(signal.reason as Error);
        });
      });
    const queries = eventQueries({
      store: makeStore({
        page: async () => ({ items: [], total: null }),
        count: async (_orgId, _filter, signal) => waiting(signal),
        facets: async (_orgId, _filter, signal) => waiting(signal),
      }),
      clock: makeJumpingClock(BASE_TIME_MS),
      maxQuestionMs: 20,
    });
    const refusal = { code: "unavailable", message: expect.stringContaining("took too long") };
    const range = { offset: 0, limit: 10 };
    await expect(queries.list("org_a", { q: "x" }, range, false)).rejects.toMatchObject(refusal);
    await expect(queries.facets("org_a", {})).rejects.toMatchObject(refusal);
    expect(calledOff).toBe(2);
  });

  test("is called off with the request that asked it", async () => {
    const request = new AbortController();
    const queries = eventQueries({
      store: makeStore({
        facets: async (_orgId, _filter, signal) => {
          request.abort(new EventStoreError("store_unavailable", "gone"));
          signal?.throwIfAborted();
          throw new Error("it was not called off");
        },
      }),
      clock: makeJumpingClock(BASE_TIME_MS),
    });
    await expect(queries.facets("org_a", {}, request.signal)).rejects.toMatchObject({
      code: "unavailable",
    });
  });
});

describe("reading one event", () => {
  const event = makeEvent(1);

  test("waits for one that was just received", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 100);
    const store = makeStore({
      existing: async () => new Set(clock.now() >= BASE_TIME_MS + 1_000 ? [event.id] : []),
      event: async () => (clock.now() >= BASE_TIME_MS + 1_000 ? event : null),
    });
    const queries = eventQueries({ store, clock });
    expect(await queries.event("org_a", event.id)).toBe(event);
    expect((await queries.detail("org_a", event.id))?.deliverySummary).toBeNull();
  });

  test("reads a large payload only once there is room for it, and asks for none otherwise", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 20_000);
    const done: string[] = [];
    const beforeLarge = async () => void done.push("room");
    const of = (found: EventRecord | "large") => {
      const store = makeStore({
        smallEvents: async () => new Map([[event.id, found]]),
        event: async () => {
          done.push("read");
          return event;
        },
      });
      return eventQueries({ store, clock }).detail("org_a", event.id, beforeLarge);
    };
    expect((await of(event))?.event).toBe(event);
    expect(done).toEqual([]);
    expect((await of("large"))?.event).toBe(event);
    expect(done).toEqual(["room", "read"]);
  });

  test("one older than the retention is gone from all answers, whatever the store still has: it was shown without its attempts", async () => {
    const retentionMs = 3_600_000;
    const clock = makeJumpingClock(event.receivedAtMs + retentionMs + 1);
    const asked: (number | undefined)[] = [];
    const store = makeStore({
      event: async () => event,
      existing: async () => new Set([event.id]),
      page: async (_, { fromMs }) => {
        asked.push(fromMs);
        return { items: [], total: 0 };
      },
      count: async (_, { fromMs }) => {
        asked.push(fromMs);
        return 0;
      },
      facets: async (_, { fromMs }) => {
        asked.push(fromMs);
        return { totalEvents: 0, byProvider: [], bySignatureValid: [], byAttemptStatus: [] };
      },
    });
    const queries = eventQueries({ store, clock, retentionMs });
    const oldestMs = event.receivedAtMs + 1;
    const range = { offset: 0, limit: 1 };
    expect(await queries.event("org_a", event.id)).toBeNull();
    expect(await queries.detail("org_a", event.id)).toBeNull();
    expect(await queries.attempts("org_a", event.id)).toBeNull();
    await queries.list("org_a", {}, range, false);
    await queries.facets("org_a", { fromMs: oldestMs - 1_000 });
    expect(asked).toEqual([oldestMs, oldestMs, oldestMs]);
    await queries.facets("org_a", { fromMs: oldestMs + 1_000 });
    expect(asked.at(-1)).toBe(oldestMs + 1_000);
    const longer = eventQueries({ store, clock, retentionMs: retentionMs + 1 });
    expect(await longer.event("org_a", event.id)).toBe(event);
  });

  test("a thousand reads of one organization that wait are asked for together: each by itself kept the store from others", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 100);
    const events = Array.from({ length: 1_000 }, (_, seed) => makeEvent(seed));
    const stored = events.filter((_, seed) => seed % 3 === 0);
    const asked: number[] = [];
    const store = makeStore({
      existing: async (_, keys) => {
        asked.push(keys.length);
        return new Set(
          stored.map(({ id }) => id).filter((id) => keys.some((key) => key.id === id)),
        );
      },
      smallEvents: async (_, keys) => {
        const wanted = new Set(asked.length === 0 ? [] : keys.map(({ id }) => id));
        return new Map(stored.filter(({ id }) => wanted.has(id)).map((one) => [one.id, one]));
      },
    });
    const queries = eventQueries({ store, clock });
    const twice = [...events, ...events];
    const found = await Promise.all(twice.map(({ id }) => queries.event("org_a", id)));
    expect(found).toEqual(twice.map((one) => (stored.includes(one) ? one : null)));
    expect(Math.max(...asked)).toBe(100);
    expect(asked.length).toBeLessThanOrEqual((10 * 2_000) / 50);
  });

  test("those that are read at the same time share statements, but for large ones: each replay took one of its own", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 60_000);
    const events = Array.from({ length: 70 }, (_, seed) => makeEvent(seed));
    const [large, missing] = [events[3]!, events[40]!];
    const asked: string[] = [];
    const store = makeStore({
      event: async (orgId, { id }) => {
        asked.push(`${orgId}: 1`);
        return events.find((one) => one.id === id)!;
      },
      smallEvents: async (orgId, keys) => {
        asked.push(`${orgId}: ${keys.length}`);
        const ids = new Set(keys.map(({ id }) => id));
        return new Map(
          events
            .filter((one) => ids.has(one.id) && one !== missing)
            .map((one) => [one.id, one === large ? "large" : one]),
        );
      },
    });
    const queries = eventQueries({ store, clock });
    const reading = events.map(({ id }) => queries.event("org_a", id));
    const elsewhere = queries.event("org_b", events[0]!.id);
    expect(await Promise.all(reading)).toEqual(events.map((one) => (one === missing ? null : one)));
    expect(await elsewhere).toBe(events[0]);
    expect(asked.toSorted()).toEqual([
      "org_a: 1",
      "org_a: 32",
      "org_a: 32",
      "org_a: 6",
      "org_b: 1",
    ]);
  });

  test("a store that fails while some are waited for fails those, and the next ones are waited for again", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 100);
    let isDown = true;
    let hasArrived = false;
    const store = makeStore({
      existing: async () => {
        if (isDown) throw new EventStoreError("store_unavailable", "down");
        hasArrived = true;
        return new Set([event.id]);
      },
      event: async () => (hasArrived ? event : null),
    });
    const queries = eventQueries({ store, clock });
    const both = await Promise.allSettled([1, 2].map(() => queries.event("org_a", event.id)));
    expect(both).toMatchObject([
      { status: "rejected", reason: { code: "unavailable" } },
      { status: "rejected", reason: { code: "unavailable" } },
    ]);
    isDown = false;
    expect(await queries.event("org_a", event.id)).toBe(event);
  });

  test("one that comes while others are asked for is asked for after them", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 100);
    const later = makeEvent(2);
    const asked: string[][] = [];
    let arrived: ReadonlySet<string> = new Set();
    let second = null as Promise<EventRecord | null> | null;
    const store = makeStore({
      existing: async (_, keys) => {
        asked.push(keys.map(({ id }) => id));
        second ??= queries.event("org_a", later.id);
        await nextTurn();
        arrived = new Set(asked.flat());
        return arrived;
      },
      event: async (_, { id }) =>
        [event, later].find((one) => one.id === id && arrived.has(id)) ?? null,
    });
    const queries = eventQueries({ store, clock });
    expect(await queries.event("org_a", event.id)).toBe(event);
    expect(await second).toBe(later);
    expect(asked).toEqual([[event.id], [later.id]]);
  });

  test("waits for the next one after it has given one up, and for one that is read while the store is being asked", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 100);
    const other = makeEvent(2);
    const isThere = () => clock.now() >= BASE_TIME_MS + 3_500;
    let meanwhile: Promise<EventRecord | null> | undefined;
    const store = makeStore({
      existing: async (_orgId, keys) => {
        if (clock.now() >= BASE_TIME_MS + 2_500) meanwhile ??= queries.event("org_a", other.id);
        await nextTurn();
        return new Set(isThere() ? keys.map(({ id }) => id) : []);
      },
      event: async (_orgId, { id }) =>
        isThere() ? ([event, other].find((one) => one.id === id) ?? null) : null,
      smallEvents: async () =>
        new Map(isThere() ? [event, other].map((one) => [one.id, one] as const) : []),
    });
    const queries = eventQueries({ store, clock });
    expect(await queries.event("org_a", event.id)).toBeNull();
    expect(await queries.event("org_a", event.id)).toBe(event);
    await expect(meanwhile).resolves.toBe(other);
  });

  test("one that is not stored has no attempts either, though they may have come before it", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 60_000);
    const attempt = makeAttempt(event);
    const store = makeStore({
      attempts: async () => [attempt],
      outcomes: async () => ({ attempts: [attempt], destinationIds: [attempt.destinationId] }),
    });
    const queries = eventQueries({ store, clock });
    expect(await queries.attempts("org_a", event.id)).toBeNull();
    expect(await queries.detail("org_a", event.id)).toBeNull();
  });

  test("gives a young one up after two seconds, and an old or malformed id at once", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS + 100);
    const queries = eventQueries({ store: makeStore({}), clock });
    expect(await queries.attempts("org_a", event.id)).toBeNull();
    expect(clock.now()).toBeGreaterThanOrEqual(BASE_TIME_MS + 2_100);
    const late = makeJumpingClock(BASE_TIME_MS + 20_000);
    const lateQueries = eventQueries({ store: makeStore({}), clock: late });
    expect(await lateQueries.detail("org_a", event.id)).toBeNull();
    expect(await lateQueries.event("org_a", "evt_nonsense")).toBeNull();
    expect(late.now()).toBe(BASE_TIME_MS + 20_000);
  });

  test("gives one up at once that is far ahead of the clock, and waits for one that is a little", async () => {
    const clock = makeJumpingClock(BASE_TIME_MS - 3_600_000);
    const queries = eventQueries({ store: makeStore({}), clock });
    expect(await queries.detail("org_a", event.id)).toBeNull();
    expect(clock.now()).toBe(BASE_TIME_MS - 3_600_000);
    const behind = makeJumpingClock(BASE_TIME_MS - 5_000);
    await eventQueries({ store: makeStore({}), clock: behind }).event("org_a", event.id);
    expect(behind.now()).toBeGreaterThanOrEqual(BASE_TIME_MS - 3_000);
  });
});

describe("the fan-out of what was just received", () => {
  const event = makeEvent(1);
  const pending = { delivered: 0, failed: 0, pending: 2, total: 2 };
  const active = { kind: "found", value: [{ status: "paused" }, { status: "active" }] } as const;
  const range = { offset: 0, limit: 50 };
  /** Makes a reading in which the events of `items` are there at once, their fan-outs from `fannedOutAtMs` on. */
  const reading = (
    fannedOutAtMs: number,
    {
      atMs = BASE_TIME_MS + 200,
      items = [event],
      destinationsOf = () => active,
    }: {
      readonly atMs?: number;
      readonly items?: readonly EventRecord[];
      readonly destinationsOf?: EventQueryPorts["destinationsOf"];
    } = {},
  ) => {
    const clock = makeJumpingClock(atMs);
    const asked: string[] = [];
    const isThere = () => clock.now() >= fannedOutAtMs;
    const looked = (endpointId: string) => {
      asked.push(endpointId);
      return destinationsOf(endpointId);
    };
    const store = makeStore({
      page: async () => ({ items, total: items.length }),
      event: async (_, { id }) => items.find((one) => one.id === id) ?? null,
      outcomes: async () => ({
        attempts: [],
        destinationIds: isThere() ? ["dst_1", "dst_2"] : null,
      }),
      existing: async (_, keys) => new Set(keys.map(({ id }) => id)),
      fannedOut: async (_, keys) => {
        asked.push(`${keys.length}`);
        return new Set(isThere() ? keys.map(({ id }) => id) : []);
      },
      summaries: async (_, keys) =>
        new Map(isThere() ? keys.map(({ id }) => [id, pending] as const) : []),
    });
    const queries = eventQueries({ store, clock, destinationsOf: looked });
    const summaryOf = async (id = event.id) => (await queries.detail("org_a", id))?.deliverySummary;
    const summaries = async () => {
      const { items: listed } = await queries.list("org_a", {}, range, true);
      return listed.map(({ deliverySummary }) => deliverySummary);
    };
    return { queries, asked, summaryOf, summaries, tookMs: () => clock.now() - atMs };
  };

  test("is waited for: the summary of an accepted event was null until the other recorder had come as far", async () => {
    const { summaryOf, tookMs } = reading(BASE_TIME_MS + 900);
    expect(await summaryOf()).toEqual(pending);
    expect(tookMs()).toBeLessThan(800);
  });

  test("is waited for within the same two seconds as the event itself, then the summary is null", async () => {
    const { summaryOf, tookMs } = reading(Infinity);
    expect(await summaryOf()).toBeNull();
    expect(tookMs()).toBeGreaterThanOrEqual(2_000);
    expect(tookMs()).toBeLessThan(2_100);
  });

  test("costs nothing where it is there, and where none is to come: an old event, a rejected one, no active destination", async () => {
    const there = reading(0);
    expect(await there.summaryOf()).toEqual(pending);
    expect(await there.summaries()).toEqual([pending]);
    const old = reading(Infinity, { atMs: BASE_TIME_MS + 6_000 });
    const rejected = reading(Infinity, { items: [makeEvent(1, { signatureValid: false })] });
    for (const none of [there, old, rejected]) {
      if (none !== there) {
        expect(await none.summaryOf()).toBeNull();
        expect(await none.summaries()).toEqual([null]);
      }
      expect([none.asked, none.tookMs()]).toEqual([[], 0]);
    }
    for (const lookup of [
      { kind: "found", value: [{ status: "paused" }, { status: "disabled" }] },
      { kind: "missing" },
      { kind: "unavailable" },
    ] as const) {
      const inactive = reading(Infinity, { destinationsOf: () => lookup });
      expect(await inactive.summaryOf()).toBeNull();
      expect([inactive.asked, inactive.tookMs()]).toEqual([["ep_1"], 0]);
    }
  });

  test("is given up in time where the configuration hangs", async () => {
    const hanging = reading(Infinity, { destinationsOf: () => new Promise(() => undefined) });
    expect(await hanging.summaryOf()).toBeNull();
    expect(hanging.tookMs()).toBe(2_000);
    const late = reading(BASE_TIME_MS + 300, { destinationsOf: async () => active });
    expect(await late.summaryOf()).toEqual(pending);
  });

  test("of a list is waited for once for all its young ones: their summaries were null", async () => {
    const items = [1, 2, 3].map((seed) => makeEvent(seed, { endpointId: `ep_${seed % 2}` }));
    const old = makeEvent(4, { receivedAtMs: BASE_TIME_MS - 60_000 });
    const { asked, summaries } = reading(BASE_TIME_MS + 240, { items: [...items, old] });
    expect(await summaries()).toEqual([pending, pending, pending, null]);
    expect(asked).toEqual(["ep_1", "ep_0", "3"]);
  });

  test("of a list is waited for no longer than 0.4 s, and not without summaries: there are always newer ones", async () => {
    const busy = reading(Infinity);
    await busy.queries.list("org_a", {}, range, false);
    expect([busy.asked, busy.tookMs()]).toEqual([[], 0]);
    expect(await busy.summaries()).toEqual([null]);
    expect(busy.tookMs()).toBeGreaterThanOrEqual(400);
    expect(busy.tookMs()).toBeLessThan(500);
    const older = reading(Infinity, { atMs: BASE_TIME_MS + 1_100 });
    expect(await older.summaries()).toEqual([null]);
    expect([older.asked, older.tookMs()]).toEqual([[], 0]);
  });
});

describe("a page and how many match in all", () => {
  const items = [makeEvent(1)];
  const listing = async (filter: EventFilter, total: number | null) => {
    let counted = 0;
    const store = makeStore({
      page: async () => ({ items, total }),
      count: async () => {
        counted += 1;
        return 7;
      },
    });
    const queries = eventQueries({ store, clock: makeJumpingClock(0) });
    const list = await queries.list("org_a", filter, { offset: 0, limit: 50 }, false);
    return { total: list.total, counted };
  };

  test("a search is counted only where its page does not come to the end", async () => {
    const field = { path: "id", value: "1" };
    for (const search of [{ q: "abc" }, { field }]) {
      expect(await listing(search, 1)).toEqual({ total: 1, counted: 0 });
      expect(await listing(search, null)).toEqual({ total: 7, counted: 1 });
    }
  });

  test("everything else is counted meanwhile", async () => {
    expect(await listing({ provider: "github" }, null)).toEqual({ total: 7, counted: 1 });
  });

  test("the total is what the page shows, whatever came before its count or after: while events came, a page of 11 said 23 in all", async () => {
    expect((await listing({}, 1)).total).toBe(1);
    const store = makeStore({ page: async () => ({ items, total: null }), count: async () => 2 });
    const queries = eventQueries({ store, clock: makeJumpingClock(0) });
    const { total } = await queries.list("org_a", {}, { offset: 2, limit: 1 }, false);
    expect(total).toBe(3);
  });

  test("a full page is the last one only where a later count says so: an earlier one hid the events that were behind it", async () => {
    const totalAt = async (offset: number): Promise<number> => {
      const counts = [2, 5];
      const store = makeStore({
        page: async () => ({ items, total: null }),
        count: async () => counts.shift()!,
      });
      const queries = eventQueries({ store, clock: makeJumpingClock(0) });
      return (await queries.list("org_a", {}, { offset, limit: 1 }, false)).total;
    };
    expect(await totalAt(1)).toBe(5);
    expect(await totalAt(0)).toBe(2);
  });

  test("summaries are asked for once the page is there, while it is still counted", async () => {
    const summary = { delivered: 1, failed: 0, pending: 0, total: 1 };
    // The first call waits for the other.
    let waiting: (() => void) | null = null;
    const bothAsked = async (): Promise<void> => {
      if (waiting === null) return new Promise((resolve) => (waiting = resolve));
      waiting();
      waiting = null;
    };
    const store = makeStore({
      page: async () => ({ items, total: null }),
      count: async () => {
        await bothAsked();
        return 7;
      },
      summaries: async (_orgId, keys) => {
        await bothAsked();
        return new Map(keys.map(({ id }) => [id, summary]));
      },
    });
    const queries = eventQueries({ store, clock: makeJumpingClock(0) });
    for (const filter of [{}, { q: "abc" }]) {
      const list = await queries.list("org_a", filter, { offset: 0, limit: 50 }, true);
      expect(list).toMatchObject({ total: 7, items: [{ deliverySummary: summary }] });
    }
  });

  test("a page that fails is told once, whatever else was asked for", async () => {
    const store = makeStore({
      page: async () => {
        throw new EventStoreError("query_limit", "too long");
      },
      count: async () => {
        throw new EventStoreError("query_limit", "too long");
      },
    });
    const queries = eventQueries({ store, clock: makeJumpingClock(0) });
    for (const filter of [{}, { q: "abc" }])
      await expect(
        queries.list("org_a", filter, { offset: 0, limit: 50 }, true),
      ).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("failures", () => {
  const failing = (code: EventStoreError["code"]) =>
    eventQueries({
      clock: makeJumpingClock(0),
      store: makeStore({
        facets: async () => {
          throw new EventStoreError(code, "secret detail");
        },
      }),
    });

  test("a limit says what to narrow", async () => {
    await expect(failing("query_limit").facets("org_a", { q: "x" })).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/from and to.*endpoint_id.*rarer q/),
    });
    await expect(
      failing("query_limit").facets("org_a", { fromMs: 0, toMs: 1, endpointId: "ep_1" }),
    ).rejects.toMatchObject({ message: expect.stringMatching(/shorter time/) });
  });

  test("a store that is busy is told as busy, not as one that does not answer", async () => {
    await expect(failing("store_busy").facets("org_a", {})).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/busy.*ask fewer/),
    });
  });

  test("a store that is away is unavailable, a refusal is a bug", async () => {
    await expect(failing("store_unavailable").facets("org_a", {})).rejects.toMatchObject({
      code: "unavailable",
      message: expect.not.stringContaining("secret"),
    });
    await expect(failing("store_refused").facets("org_a", {})).rejects.toBeInstanceOf(
      EventStoreError,
    );
  });

  test("q of white space alone is refused", async () => {
    const queries = eventQueries({ store: makeStore({}), clock: makeJumpingClock(0) });
    await expect(queries.facets("org_a", { q: " \t" })).rejects.toMatchObject({
      code: "validation_error",
      field: "q",
    });
  });
});

test("search terms are lowered in ASCII only, and each counts once", () => {
  expect(searchTerms("  ABC É abc\tx%_ ")).toEqual(["abc", "É", "x%_"]);
});
