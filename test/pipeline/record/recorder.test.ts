import { afterAll, beforeAll, expect, test } from "vitest";
import { makeEventStoreWriter } from "../../../src/adapters/clickhouse/insert.ts";
import { migrateClickHouse } from "../../../src/adapters/clickhouse/migrate.ts";
import type { Clock } from "../../../src/domain/clock.ts";
import { EventStoreError, type EventStoreWriter } from "../../../src/domain/event-store.ts";
import type { EventRecord } from "../../../src/domain/event.ts";
import { encodeEvent } from "../../../src/pipeline/log/event-codec.ts";
import { encodeOutcome } from "../../../src/pipeline/log/outcome-codec.ts";
import { makeRecorder, type Recorder } from "../../../src/pipeline/record/make-recorder.ts";
import type { RecordMetrics } from "../../../src/pipeline/record/record-metrics.ts";
import {
  readerOf,
  realClock,
  startTestClickHouse,
  type TestClickHouse,
} from "../../support/clickhouse.ts";
import { makeAttempt, makeEvent, makeFanout } from "../../support/clickhouse-events.ts";
import { MemoryLog } from "../../support/clickhouse-log.ts";
import { SimClock } from "../../support/sim-clock.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { until } from "../../support/wait-for.ts";

let clickhouse: TestClickHouse;
beforeAll(async () => {
  clickhouse = await startTestClickHouse();
  await migrateClickHouse(clickhouse.client, { retentionDays: 3_000 });
});
afterAll(async () => {
  await clickhouse[Symbol.asyncDispose]();
});

const everything = { terms: [] };

function record(
  log: MemoryLog,
  store: EventStoreWriter,
  seen: Partial<RecordMetrics> = {},
  clock: Clock = realClock,
): Recorder {
  const ignore = (): void => undefined;
  const metrics = { recorded: ignore, failed: ignore, skipped: ignore, ...seen };
  const failed = (error: Error): void => expect.fail(error.message);
  return makeRecorder({ failed, log, store, clock, logger: makeSilentLogger(), metrics });
}

function fill(log: MemoryLog, count: number, over: Partial<EventRecord>): void {
  for (let seed = 0; seed < count; seed += 1) {
    const event = makeEvent(seed, { endpointId: `ep_${seed % 7}`, ...over });
    log.append("events", event.endpointId, encodeEvent(event));
  }
}

test("an event, its fan-out and its attempt are visible soon when it is quiet (prints how soon)", async () => {
  const log = new MemoryLog(4);
  const reader = readerOf(clickhouse);
  await using recorder = record(log, makeEventStoreWriter(clickhouse.client));
  await recorder.start();
  const delays: number[] = [];
  for (let seed = 0; seed < 5; seed += 1) {
    const event = makeEvent(seed, { orgId: "org_quiet" });
    const startedAt = performance.now();
    log.append("events", event.endpointId, encodeEvent(event));
    log.append("attempts", event.endpointId, encodeOutcome(makeFanout(event)));
    log.append(
      "attempts",
      event.endpointId,
      encodeOutcome({ kind: "attempt", attempt: makeAttempt(event), followUp: null }),
    );
    await until(async () => (await reader.existing("org_quiet", [event])).size === 1);
    delays.push(performance.now() - startedAt);
    await until(async () => (await reader.attempts("org_quiet", event)).length === 1);
    await until(async () => (await reader.summaries("org_quiet", [event])).size === 1);
  }
  console.log(`visible after ${delays.map(Math.round).join(", ")} ms`);
  // The minimum: other work on the machine may hold up some of them, a recorder that waits too long holds up all.
  expect(Math.min(...delays)).toBeLessThan(5_000);
});

test("a backlog goes in large batches", { timeout: 90_000 }, async () => {
  const log = new MemoryLog(8);
  fill(log, 24_000, { orgId: "org_backlog" });
  const batches: number[] = [];
  await using recorder = record(log, makeEventStoreWriter(clickhouse.client), {
    recorded: (_, rows) => batches.push(rows),
  });
  await recorder.start();
  await until(() => log.committedOffset("events") === 24_000, "all is recorded", 60_000);
  expect(await readerOf(clickhouse).count("org_backlog", everything)).toBe(24_000);
  expect(batches.length).toBeLessThanOrEqual(4);
});

test("a store that is away, answers too late or fails at random loses nothing and doubles nothing", async () => {
  const log = new MemoryLog(4);
  const writer = makeEventStoreWriter(clickhouse.client);
  let calls = 0;
  let failures = 0;
  const flaky: EventStoreWriter = {
    ...writer,
    async insertEvents(rows, token) {
      calls += 1;
      if (calls === 1) throw new EventStoreError("store_unavailable", "away");
      await writer.insertEvents(rows, token);
      if (calls === 2) throw new EventStoreError("store_unavailable", "the answer was lost");
    },
  };
  fill(log, 500, { orgId: "org_flaky" });
  await using recorder = record(log, flaky, { failed: () => (failures += 1) });
  await recorder.start();
  await until(() => log.committedOffset("events") === 500);
  expect(failures).toBe(2);
  const answer = await clickhouse.client.query({
    query: "SELECT count() AS rows FROM events WHERE org_id = 'org_flaky'",
    format: "JSONEachRow",
  });
  expect(await answer.json()).toEqual([{ rows: 500 }]);
});

test("a store that is away is asked again after growing pauses, however much waits", async () => {
  const log = new MemoryLog(1);
  const clock = new SimClock();
  const startedAtMs = clock.monotonic();
  const askedAtMs: number[] = [];
  const away: EventStoreWriter = {
    ...makeEventStoreWriter(clickhouse.client),
    async insertEvents() {
      askedAtMs.push(clock.monotonic() - startedAtMs);
      throw new EventStoreError("store_unavailable", "away");
    },
  };
  await using recorder = record(log, away, {}, clock);
  await recorder.start();
  for (let round = 0; round < 30; round += 1) {
    fill(log, 1_000, { orgId: "org_waiting" });
    await clock.advance(100);
  }
  expect(askedAtMs).toEqual([100, 350, 850, 1_850]);
});

test("a crash between insert and commit repeats exactly the same batch, which the store drops", async () => {
  const log = new MemoryLog(4);
  const writer = makeEventStoreWriter(clickhouse.client);
  fill(log, 400, { orgId: "org_crash" });
  log.onCommit = (_topic, _partition, { metadata }) => {
    if (metadata === "") throw new Error("the process is gone");
  };
  const tokens: string[] = [];
  const watching: EventStoreWriter = {
    ...writer,
    async insertEvents(rows, token) {
      await writer.insertEvents(rows, token);
      tokens.push(token);
    },
  };
  {
    await using recorder = record(log, watching);
    await recorder.start();
    await until(() => tokens.length === 1);
  }
  expect(log.committedOffset("events")).toBe(0);
  log.onCommit = () => undefined;
  fill(log, 100, { orgId: "org_after" });
  {
    await using recorder = record(log, watching);
    await recorder.start();
    await until(() => log.committedOffset("events") === 500);
  }
  expect(tokens[1]).toBe(tokens[0]);
  const answer = await clickhouse.client.query({
    query:
      "SELECT org_id, count() AS rows FROM events WHERE org_id IN ('org_crash', 'org_after') GROUP BY 1 ORDER BY 2",
    format: "JSONEachRow",
  });
  expect(await answer.json()).toEqual([
    { org_id: "org_after", rows: 100 },
    { org_id: "org_crash", rows: 400 },
  ]);
});

test("events of a new log are stored, though one with the same offsets has been recorded to this store before", async () => {
  const reader = readerOf(clickhouse);
  for (const seed of [1, 2]) {
    const log = new MemoryLog(1);
    const event = makeEvent(seed, { orgId: "org_new_log" });
    const { endpointId } = event;
    log.append("events", endpointId, encodeEvent(event));
    log.append("attempts", endpointId, encodeOutcome(makeFanout(event)));
    const attempt = makeAttempt(event);
    log.append("attempts", endpointId, encodeOutcome({ kind: "attempt", attempt, followUp: null }));
    await using recorder = record(log, makeEventStoreWriter(clickhouse.client));
    await recorder.start();
    await until(() => log.committedOffset("events") === 1 && log.committedOffset("attempts") === 2);
    expect((await reader.existing("org_new_log", [event])).has(event.id)).toBe(true);
    expect(await reader.attempts("org_new_log", event)).toHaveLength(1);
    expect((await reader.summaries("org_new_log", [event])).size).toBe(1);
  }
  expect(await reader.count("org_new_log", everything)).toBe(2);
});

test("a stop gives up an insert that hangs, and its batch stays announced for the next owner", async () => {
  const log = new MemoryLog(1);
  const clock = new SimClock();
  const signals: AbortSignal[] = [];
  const hanging: EventStoreWriter = {
    ...makeEventStoreWriter(clickhouse.client),
    insertEvents: (_rows, _token, signal) =>
      new Promise((_resolve, reject) => {
        signals.push(signal!);
        signal!.addEventListener("abort", () => reject(new Error("given up")));
      }),
  };
  let failures = 0;
  const recorder = record(log, hanging, { failed: () => (failures += 1) }, clock);
  await recorder.start();
  fill(log, 1, { orgId: "org_hanging" });
  await clock.advance(1_000);
  expect(signals).toHaveLength(1);
  let ended = false;
  const stopped = recorder[Symbol.asyncDispose]().then(() => (ended = true));
  await clock.advance(4_000);
  expect(ended).toBe(false);
  await clock.advance(2_000);
  expect(ended).toBe(true);
  await stopped;
  // It was counted, and told, as a failure of the store.
  expect(failures).toBe(0);
  expect(log.committed.get("events/0")).toEqual({ offset: 0, metadata: "0 0 1" });
});

test("a record that cannot be read is counted and passed over", async () => {
  const log = new MemoryLog(1);
  log.append("events", "ep_1", Buffer.from("junk"));
  fill(log, 1, { orgId: "org_junk" });
  let skipped = 0;
  await using recorder = record(log, makeEventStoreWriter(clickhouse.client), {
    skipped: () => (skipped += 1),
  });
  await recorder.start();
  await until(() => log.committedOffset("events") === 2);
  expect(skipped).toBe(1);
  expect(await readerOf(clickhouse).count("org_junk", everything)).toBe(1);
});
