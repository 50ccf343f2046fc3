import { afterAll, beforeAll, expect, test } from "vitest";
import { makeEventStoreWriter } from "../../../src/adapters/clickhouse/insert.ts";
import { migrateClickHouse } from "../../../src/adapters/clickhouse/migrate.ts";
import { makeEventStoreReader } from "../../../src/adapters/clickhouse/queries.ts";
import type { Attempt } from "../../../src/domain/attempt.ts";
import type { EventRecord } from "../../../src/domain/event.ts";
import type { EventQueries } from "../../../src/domain/event-query.ts";
import { makeEventQueries } from "../../../src/pipeline/query/make-event-queries.ts";
import { realClock, startTestClickHouse, type TestClickHouse } from "../../support/clickhouse.ts";
import { adding, makeAttempt, makeEvent, makeFanout } from "../../support/clickhouse-events.ts";

const FULL_BODY = '"'.repeat(16 * 1024);
const CUT_BODY = `${'"'.repeat(256)}\n… [cut: only the newest 4 MiB of response bodies are shown whole]`;
/** How many bodies of 16 KiB make 4 MiB. */
const WHOLE = 256;
const MAX_ROWS_AT_ONCE = 1_000;

let clickhouse: TestClickHouse;
let queries: EventQueries;
let askedBytes = 0;
/** An event of an earlier version: its fan-out, and those of earlier events, may be in the former table. */
const FORMER = makeEvent(0);
const makeLaterEvent = (seed: number): EventRecord =>
  makeEvent(seed, { receivedAtMs: FORMER.receivedAtMs + 3_600_000 + seed });

beforeAll(async () => {
  clickhouse = await startTestClickHouse();
  await migrateClickHouse(clickhouse.client, { retentionDays: 3_000 });
  await clickhouse.client.command({
    query: `INSERT INTO fanouts SELECT {orgId:String}, fromUnixTimestamp64Milli({atMs:Int64}), {id:String}, '01FORMER', ['dst_98'], now64(3)`,
    query_params: { orgId: FORMER.orgId, atMs: FORMER.receivedAtMs, id: FORMER.id },
  });
  const store = makeEventStoreReader(
    clickhouse.client,
    {},
    undefined,
    async <Row>(...question: Parameters<typeof clickhouse.lookups.ask>) => {
      const rows = await clickhouse.lookups.ask<Row>(...question);
      askedBytes += JSON.stringify(rows).length;
      return rows;
    },
  );
  queries = makeEventQueries({
    store,
    clock: realClock,
    destinationsOf: () => ({ kind: "missing" }),
  });
});
afterAll(async () => {
  await clickhouse[Symbol.asyncDispose]();
});

/** Makes an attempt for each body, in order of time, at ten destinations in turn. */
function attemptsWith(event: EventRecord, bodies: readonly string[]): Attempt[] {
  return bodies.map((responseBody, index) =>
    makeAttempt(event, {
      destinationId: `dst_${index % 10}`,
      tryNumber: Math.floor(index / 10) + 1,
      attemptedAtMs: event.receivedAtMs + index,
      responseBody,
    }),
  );
}

async function store(event: EventRecord, attempts: readonly Attempt[]): Promise<void> {
  const writer = makeEventStoreWriter(clickhouse.client);
  await writer.insertEvents([{ event, addTokens: adding() }], `${event.id} event`);
  const rows = [makeFanout(event, { destinationIds: ["dst_0", "dst_99"] }), ...attempts];
  for (let at = 0; at < rows.length; at += MAX_ROWS_AT_ONCE)
    await writer.insertOutcomes(rows.slice(at, at + MAX_ROWS_AT_ONCE), `${event.id} ${at}`);
}

async function read(event: EventRecord) {
  askedBytes = 0;
  const detail = await queries.detail(event.orgId, event.id);
  const bytes = askedBytes;
  expect(await queries.attempts(event.orgId, event.id)).toEqual(detail!.attempts);
  return { ...detail!, bytes, bodies: detail!.attempts.map(({ responseBody }) => responseBody) };
}

test("an event with 1,500 attempts of 16 KiB each is answered with all of them, the newest whole, the older ones cut", async () => {
  const event = makeLaterEvent(1);
  const attempts = attemptsWith(event, Array<string>(1_500).fill(FULL_BODY));
  await store(event, attempts);
  // A row that is stored twice has one body.
  await store(event, attempts.slice(-500));
  const found = await read(event);
  expect(found.event.body).toEqual(event.body);
  expect(found.deliverySummary).toEqual({ delivered: 10, failed: 0, pending: 1, total: 11 });
  expect(found.attempts.map(({ id }) => id)).toEqual(attempts.map(({ id }) => id));
  expect(found.attempts.map(({ attemptNumber }) => attemptNumber)).toEqual(
    attempts.map(({ tryNumber }) => tryNumber),
  );
  expect(found.bodies).toEqual([
    ...Array<string>(1_500 - WHOLE).fill(CUT_BODY),
    ...Array<string>(WHOLE).fill(FULL_BODY),
  ]);
  // Twice the newest 4 MiB, in which each character is escaped, and 1 KB for each row besides.
  expect(found.bytes).toBeLessThan(2 * 2 * 4 * 1024 * 1024 + 1_500 * 1_024);
});

test("an event with 256 attempts of 16 KiB each is answered byte for byte, whatever else came of it", async () => {
  const event = makeLaterEvent(2);
  const bodies = Array.from({ length: WHOLE }, (_, index) => FULL_BODY.slice(4) + (1_000 + index));
  await store(event, attemptsWith(event, bodies));
  expect((await read(event)).bodies).toEqual(bodies);
});

test("an event with thousands of attempts of short bodies is answered byte for byte", async () => {
  const event = makeLaterEvent(3);
  const bodies = Array.from(
    { length: 2_000 },
    (_, index) => `${"žž\u{1f642}\n\0".repeat(200)}${index}`,
  );
  await store(event, attemptsWith(event, bodies));
  expect((await read(event)).bodies).toEqual(bodies);
});

test("an older body is cut between characters, and none of up to 256 is; former fan-outs count", async () => {
  const short = "\u{1f642}".repeat(256);
  const older = ["", "ok", short, `${short}.`];
  await store(FORMER, attemptsWith(FORMER, [...older, ...Array<string>(WHOLE).fill(FULL_BODY)]));
  const found = await read(FORMER);
  const mark = CUT_BODY.slice(256);
  expect(found.bodies.slice(0, older.length)).toEqual(["", "ok", short, short + mark]);
  expect(found.deliverySummary).toEqual({ delivered: 10, failed: 0, pending: 2, total: 12 });
});

test("outcomes of events of more days than a server takes in one insert are all stored", async () => {
  const events = Array.from({ length: 120 }, (_, day) =>
    makeEvent(70_000 + day, { receivedAtMs: FORMER.receivedAtMs - day * 86_400_000 }),
  );
  const attempts = events.map((event) => makeAttempt(event, { responseBody: "of long ago" }));
  await makeEventStoreWriter(clickhouse.client).insertOutcomes(attempts, "of 120 days");
  const answer = await clickhouse.client.query({
    query: "SELECT id FROM attempts WHERE response_body = 'of long ago'",
    format: "JSONEachRow",
  });
  const stored = (await answer.json<{ id: string }>()).map(({ id }) => id);
  expect(stored.toSorted()).toEqual(attempts.map(({ id }) => id).toSorted());
});
