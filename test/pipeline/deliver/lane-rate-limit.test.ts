import { describe, expect, it } from "vitest";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import type { DestinationConfig } from "../../../src/domain/destination.ts";
import type { RateLimitWindow } from "../../../src/domain/enums.ts";
import { LaneRateLimit } from "../../../src/pipeline/deliver/lane/lane-rate-limit.ts";
import type { UsedToken } from "../../../src/pipeline/deliver/lane/lane-rate-limit.ts";
import type { LimitsHost } from "../../../src/pipeline/deliver/lane/limits-host.ts";
import type { LimitRecord } from "../../../src/pipeline/deliver/limits/limits-codec.ts";

const MAX_WAIT_MS = 2_000;
const PUT_OFF = 400_000;
const MEASURED = 2_000;
const ROUNDS = 5;

/** Makes the host of a limit of which nothing is known, and whose records are durable, unless `changes` say otherwise. */
function hostOf(now: () => number, changes: object = {}): LimitsHost {
  return {
    clock: { now },
    options: { deliveryTimeoutMs: 15_000 },
    steadyNow: now,
    limits: { get: () => null, areComplete: true, late: async () => null },
    assignedSteadyMs: now(),
    writeLimit: async () => true,
    ...changes,
  } as unknown as LimitsHost;
}

it("regression: a deferral costs the same when a part of a long backlog has come back: it walked past all that had", () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const host = hostOf(() => nowMs, { assignedSteadyMs: nowMs - 60_000 });
  const limit = new LaneRateLimit("dst_1", host);
  limit.configure({ rateLimitMax: 10, rateLimitWindow: "second" } as DestinationConfig);
  const plan = (deferrals: number, dueAtMs: number): number =>
    limit.plan({ deferrals, dueAtMs } as DeliveryTask, dueAtMs, nowMs + MAX_WAIT_MS);
  /** Returns the CPU µs of the cheapest round, so that other work on the machine does not count. */
  const costOfMore = (): number => {
    const costs = Array.from({ length: ROUNDS }, () => {
      const before = process.cpuUsage();
      for (let count = 0; count < MEASURED; count += 1) plan(0, nowMs);
      return process.cpuUsage(before).user;
    });
    return Math.min(...costs);
  };
  const slots: number[] = [];
  for (let count = 0; count < PUT_OFF; count += 1) slots.push(plan(0, nowMs));
  const beforeMicros = costOfMore();
  // Time stands still: none of them is forgotten for its age.
  const back = slots.slice(0, PUT_OFF * 0.45).filter((slotMs) => slotMs > nowMs + MAX_WAIT_MS);
  expect(back.filter((slotMs) => plan(1, slotMs) !== slotMs)).toEqual([]);
  expect(costOfMore()).toBeLessThan(5 * beforeMicros + 20_000);
});

it.each([
  ["that is asked for", true],
  ["that nobody has asked for yet", false],
])(
  "regression: a change of the limit threw away what a former home had used, and %s",
  async (_, isAsked) => {
    const nowMs = Date.UTC(2026, 0, 1);
    let learn: (record: LimitRecord) => void = () => undefined;
    const late = new Promise<LimitRecord>((resolve) => {
      learn = resolve;
    });
    const host = hostOf(() => nowMs, {
      limits: { get: () => null, areComplete: false, late: () => late },
    });
    const limit = new LaneRateLimit("dst_1", host);
    const configure = (max: number): void =>
      limit.configure({ rateLimitMax: max, rateLimitWindow: "hour" } as DestinationConfig);
    const nothing = (): void => undefined;
    configure(10);
    if (isAsked) limit.waitMs(nothing);
    configure(12);
    limit.waitMs(nothing);
    learn({ destinationId: "dst_1", starts: [[nowMs - 60_000, 10]], block: null });
    let started = 0;
    for (let asked = 0; asked < 100; asked += 1) {
      if (limit.waitMs(nothing) === 0) {
        limit.start().onSent();
        started += 1;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(started).toBe(2);
  },
);

it("nothing starts before its reservation is durable: after a crash nobody would know of its tries", async () => {
  const nowMs = Date.UTC(2026, 0, 1);
  let isDurable = false;
  const written: LimitRecord[] = [];
  const host = hostOf(() => nowMs, {
    writeLimit: async (record: LimitRecord) => {
      written.push(record);
      return isDurable;
    },
  });
  const limit = new LaneRateLimit("dst_1", host);
  limit.configure({ rateLimitMax: 100, rateLimitWindow: "hour" } as DestinationConfig);
  const ask = async (): Promise<boolean> => {
    const mayStart = limit.waitMs(() => undefined) === 0;
    await new Promise((resolve) => setImmediate(resolve));
    return mayStart;
  };
  for (let asked = 0; asked < 5; asked += 1) expect(await ask()).toBe(false);
  expect(written).toHaveLength(5);
  isDurable = true;
  expect(await ask()).toBe(false);
  expect(await ask()).toBe(true);
});

describe("a limit that is changed", () => {
  /** Makes a limit that may start as many tries as it is asked for at a time. */
  function makeLimit(state = { nowMs: Date.UTC(2026, 0, 1) }, changes: object = {}) {
    const limit = new LaneRateLimit(
      "dst_1",
      hostOf(() => state.nowMs, changes),
    );
    return {
      limit,
      state,
      configure: (rateLimitMax: number, rateLimitWindow: RateLimitWindow) =>
        limit.configure({ rateLimitMax, rateLimitWindow } as DestinationConfig),
      /** Starts tries, each answered at once, until the limit is reached; returns how many. */
      async start(most = 100): Promise<number> {
        let started = 0;
        for (let asked = 0; asked < 2 * most && started < most; asked += 1) {
          if (limit.waitMs(() => undefined) === 0) {
            const token = limit.start();
            token.onSent();
            token.onAnswered();
            started += 1;
          }
          await new Promise((resolve) => setImmediate(resolve));
        }
        return started;
      },
    };
  }

  /** Makes what a host needs of the log that one owner after the other reads and writes. */
  function makeLog() {
    let latest: LimitRecord | null = null;
    const read = () => latest;
    const write = (record: LimitRecord): void => {
      latest = record;
    };
    const log = {
      limits: { get: read, areComplete: true, late: async () => read() },
      writeLimit: async (record: LimitRecord) => {
        write(record);
        return true;
      },
    };
    return { log, read, write };
  }

  it("in its window only counts what was started under the old one, and no more is let go", async () => {
    const { state, configure, start } = makeLimit();
    configure(10, "minute");
    expect(await start()).toBe(10);
    configure(10, "hour");
    state.nowMs += 120_000;
    expect(await start()).toBe(0);
    state.nowMs += 3_600_000;
    expect(await start()).toBe(10);
  });

  it("many times still counts what was started under the first once that is restored", async () => {
    const { state, configure, start } = makeLimit();
    configure(10, "day");
    expect(await start()).toBe(10);
    for (const window of ["minute", "second", "minute"] as const) {
      state.nowMs += 600_000;
      configure(10, window);
    }
    state.nowMs += 600_000;
    configure(13, "day");
    expect(await start()).toBe(3);
  });

  it.each([
    ["answered", true],
    ["never answered", false],
  ])(
    "regression: in the middle of tries that are %s then counts them once it is restored: they were forgotten",
    async (_, isAnswered) => {
      const { limit, state, configure, start } = makeLimit();
      configure(10, "hour");
      const tokens: UsedToken[] = [];
      while (tokens.length < 8) {
        if (limit.waitMs(() => undefined) === 0) tokens.push(limit.start());
        await new Promise((resolve) => setImmediate(resolve));
      }
      for (const { onSent } of tokens) onSent();
      configure(10, "minute");
      if (isAnswered) for (const { onAnswered } of tokens) onAnswered();
      state.nowMs += 100_000;
      expect(await start(1)).toBe(1);
      state.nowMs += 20_000;
      configure(10, "hour");
      expect(await start()).toBe(1);
    },
  );

  it("regression: and restored after two restarts counts what the shorter window, when it was recorded, still counted, too: it was forgotten", async () => {
    const { log } = makeLog();
    const first = makeLimit(undefined, log);
    const { state } = first;
    first.configure(8, "hour");
    expect(await first.start(7)).toBe(7);
    first.configure(10, "minute");
    expect(await first.start(1)).toBe(1);
    state.nowMs += 120_000;
    const second = makeLimit(state, log);
    second.configure(10, "minute");
    expect(await second.start(1)).toBe(1);
    state.nowMs += 120_000;
    const third = makeLimit(state, log);
    third.configure(8, "hour");
    expect(await third.start()).toBe(0);
  });

  it.each([
    ["again and again", ["minute", "second"]],
    ["never, in a process that is started again and again", ["minute"]],
  ] as const)(
    "%s has a record of what may still count, and of no more: it is written with each block",
    async (_, windows) => {
      const { log, read, write } = makeLog();
      const state = { nowMs: Date.UTC(2026, 0, 1) };
      for (let round = 0; round < 300; round += 1) {
        const { configure, start, limit } = makeLimit(state, log);
        for (const window of windows) {
          configure(10, window);
          await start(10);
          state.nowMs += 20_000;
        }
        const last = limit.last();
        if (last !== null) write(last.record);
        expect(read()?.starts.length).toBeLessThan(50);
      }
    },
  );

  it("twice counts each start once", async () => {
    const { configure, start } = makeLimit();
    configure(10, "minute");
    expect(await start(4)).toBe(4);
    configure(11, "minute");
    configure(10, "minute");
    expect(await start()).toBe(6);
  });

  it("per second begins with a used-up window where another owner may have just sent", async () => {
    const { state, configure, start } = makeLimit();
    configure(5, "second");
    expect(await start()).toBe(0);
    state.nowMs += 1_100;
    expect(await start()).toBe(5);
  });
});

it("what the last owner wrote counts by the wall clock, also after that was set: the steady clock of this process is ahead then", async () => {
  const wallMs = Date.UTC(2026, 0, 1);
  const known = { destinationId: "dst_1", starts: [[wallMs - 30_000, 10]], block: null };
  const host = hostOf(() => wallMs, {
    steadyNow: () => wallMs + 3_600_000,
    limits: { get: () => known, areComplete: true, late: async () => null },
    assignedSteadyMs: wallMs + 3_600_000,
  });
  const limit = new LaneRateLimit("dst_1", host);
  limit.configure({ rateLimitMax: 10, rateLimitWindow: "minute" } as DestinationConfig);
  expect(limit.waitMs(() => undefined)).toBe(31_000);
});

it("the task that replaces one keeps its slot", () => {
  const nowMs = Date.UTC(2026, 0, 1);
  const host = hostOf(() => nowMs, { assignedSteadyMs: nowMs - 60_000 });
  const limit = new LaneRateLimit("dst_1", host);
  limit.configure({ rateLimitMax: 1, rateLimitWindow: "minute" } as DestinationConfig);
  const task = { deferrals: 0, dueAtMs: nowMs } as DeliveryTask;
  const replacement = { deferrals: 1, dueAtMs: nowMs } as DeliveryTask;
  expect(limit.plan(task, nowMs, nowMs + MAX_WAIT_MS)).toBe(nowMs);
  limit.goesOnAs(task, replacement);
  const other = { deferrals: 0, dueAtMs: nowMs } as DeliveryTask;
  expect(limit.plan(other, nowMs, nowMs + MAX_WAIT_MS)).toBe(nowMs + 61_000);
  const dueAtMs = nowMs + 5_000;
  limit.keep(replacement, dueAtMs);
  const back = { deferrals: 2, dueAtMs } as DeliveryTask;
  expect(limit.plan(back, dueAtMs, dueAtMs + MAX_WAIT_MS)).toBe(dueAtMs);
});
