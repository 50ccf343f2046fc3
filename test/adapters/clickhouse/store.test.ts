import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { inspect } from "node:util";
import {
  ClickHouseError,
  type ClickHouseClient,
  type ExecParams,
  type QueryParams,
} from "@clickhouse/client";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Ask } from "../../../src/adapters/clickhouse/ask.ts";
import { connectClickHouse } from "../../../src/adapters/clickhouse/connect.ts";
import { createTable } from "../../../src/adapters/clickhouse/ddl.ts";
import { attemptCondition, eventCondition } from "../../../src/adapters/clickhouse/filter-sql.ts";
import { makeEventStoreWriter } from "../../../src/adapters/clickhouse/insert.ts";
import { migrateClickHouse, schemaStatements } from "../../../src/adapters/clickhouse/migrate.ts";
import { makePage, type PagePorts } from "../../../src/adapters/clickhouse/page.ts";
import { makeEventStoreReader } from "../../../src/adapters/clickhouse/queries.ts";
import {
  SELECT_PARTS,
  toPart,
  type Part,
  type PartJson,
} from "../../../src/adapters/clickhouse/parts.ts";
import {
  COUNT_EVENTS,
  countStatement,
  FACETS_OF_ATTEMPTS,
  FACETS_OF_EVENTS,
  repeatedRowsStatement,
} from "../../../src/adapters/clickhouse/query-sql.ts";
import { readingOf } from "../../../src/adapters/clickhouse/reading.ts";
import { INDEXED_TEXT, SEARCH_TEXT, TABLES } from "../../../src/adapters/clickhouse/schema.ts";
import { sipHash64 } from "../../../src/adapters/clickhouse/sip-hash.ts";
import { toStoreError } from "../../../src/adapters/clickhouse/store-error.ts";
import type { Attempt } from "../../../src/domain/attempt.ts";
import type {
  EventStoreReader,
  EventStoreWriter,
  StoreFilter,
} from "../../../src/domain/event-store.ts";
import { readerOf, startTestClickHouse, type TestClickHouse } from "../../support/clickhouse.ts";
import {
  adding,
  BASE_TIME_MS,
  makeAttempt,
  makeEvent,
  makeFanout,
} from "../../support/clickhouse-events.ts";
import { seededRandom } from "../../support/sim-clock.ts";
import { waitFor } from "../../support/wait-for.ts";

let clickhouse: TestClickHouse;
let reader: EventStoreReader;
let writer: EventStoreWriter;
const everything = { terms: [] };
const ALL_TIME = { fromMs: -Infinity, untilMs: Infinity };

beforeAll(async () => {
  clickhouse = await startTestClickHouse();
  await migrateClickHouse(clickhouse.client, { retentionDays: 3_000 });
  reader = readerOf(clickhouse);
  writer = makeEventStoreWriter(clickhouse.client);
});
afterAll(async () => {
  await clickhouse[Symbol.asyncDispose]();
});

/** Counts stored events, including copies. */
const storedOf = async (orgId: string): Promise<number> => {
  const answer = await clickhouse.client.query({
    query: "SELECT count() AS count FROM events WHERE org_id = {orgId:String}",
    query_params: { orgId },
    format: "JSONEachRow",
  });
  const [row] = await answer.json<{ count: number }>();
  return row!.count;
};

const withDisposal = (client: ClickHouseClient) => ({
  client,
  [Symbol.asyncDispose]: () => client.close(),
});

const shownOf = (attempt: Attempt) => {
  const {
    provider: _,
    signatureValid: _2,
    eventReceivedAtMs: _3,
    trigger: _4,
    deferral: _5,
    ...shown
  } = attempt;
  return shown;
};

const rows = async (table: string): Promise<number> => {
  const answer = await clickhouse.client.query({
    query: `SELECT count() AS count FROM ${table}`,
    format: "JSONEachRow",
  });
  const [row] = await answer.json<{ count: number }>();
  return row!.count;
};

describe("migrations", () => {
  test("a second run changes nothing, nor do two at once", async () => {
    const options = { retentionDays: 3_000 };
    await Promise.all([
      migrateClickHouse(clickhouse.client, options),
      migrateClickHouse(clickhouse.client, options),
    ]);
    expect(await migrateClickHouse(clickhouse.client, options)).toEqual({ applied: [] });
  });

  test("events are merged less often than by default: each merge makes all filters anew", async () => {
    const [table] = await clickhouse.client
      .query({
        query:
          "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'events'",
        format: "JSONEachRow",
      })
      .then((answer) => answer.json<{ engine_full: string }>());
    expect(table!.engine_full).toContain("merge_selector_base = 10");
  });

  test("the statements for a cluster are well-formed, replicated and distributed", async () => {
    const statements = schemaStatements({ retentionDays: 30, cluster: "relay" });
    const formatted: string[] = [];
    for (const statement of statements) {
      const answer = await clickhouse.client.query({
        query: "SELECT formatQuery({statement:String}) AS text",
        query_params: { statement },
        format: "JSONEachRow",
      });
      formatted.push(...(await answer.json<{ text: string }>()).map((row) => row.text));
    }
    expect(formatted.filter((text) => text.includes("ON CLUSTER relay"))).toHaveLength(35);
    expect(formatted.filter((text) => text.includes("ReplicatedReplacingMergeTree"))).toHaveLength(
      3,
    );
    expect(formatted.filter((text) => text.includes("Distributed('relay'"))).toHaveLength(3);
  });

  test("filters in eight shards stand in the place of the former leaf indexes, and a search uses its own", async () => {
    const answer = await clickhouse.client.query({
      query:
        "SELECT name, granularity FROM system.data_skipping_indices WHERE table = 'events' AND type = 'bloom_filter' ORDER BY name",
      format: "JSONEachRow",
    });
    expect(await answer.json()).toEqual(
      Array.from({ length: 8 }, (_, shard) => ({
        name: `leaves_filter_${shard}`,
        granularity: 16,
      })),
    );
    const event = { event: makeEvent(1, { orgId: "org_leaves" }), addTokens: adding("a", "b") };
    await writer.insertEvents([event], "leaves");
    for (const token of ["a", "b", "c"]) {
      const { sql, parameters } = eventCondition("org_leaves", { terms: [], token });
      const plan = await clickhouse.client.query({
        query: `EXPLAIN indexes = 1 SELECT id FROM events WHERE ${sql}`,
        query_params: { ...parameters },
        format: "JSONEachRow",
      });
      const lines = (await plan.json<{ explain: string }>()).map(({ explain }) => explain);
      const own = `leaves_filter_${sipHash64(token) % 8n}`;
      expect(lines.filter((line) => line.includes("leaves_filter"))).toEqual([
        expect.stringContaining(own),
      ]);
      expect(await reader.count("org_leaves", { terms: [], token })).toBe(token === "c" ? 0 : 1);
    }
  });

  test("an insert leaves the coarse filters of the text to the first merge; a search finds the same before and after", async () => {
    const filters = async (): Promise<Record<string, boolean>> => {
      const answer = await clickhouse.client.query({
        query: `SELECT name, data_compressed_bytes > 0 AS is_there FROM system.data_skipping_indices
          WHERE database = currentDatabase() AND table = 'events' AND name LIKE 'text_%' ORDER BY name`,
        format: "JSONEachRow",
      });
      const rows = await answer.json<{ name: string; is_there: number }>();
      return Object.fromEntries(rows.map(({ name, is_there }) => [name, is_there === 1]));
    };
    const found = async (): Promise<number[]> =>
      Promise.all(
        ["needle-1", "needle-2", "needle-3", "edle-"].map((q) =>
          reader.count("org_text", { terms: [q] }),
        ),
      );
    await clickhouse.client.command({ query: "TRUNCATE TABLE events" });
    for (const index of [1, 2]) {
      const body = Buffer.from(`{"text":"needle-${index}"}`);
      const event = makeEvent(index, { orgId: "org_text", body });
      await writer.insertEvents([{ event, addTokens: adding() }], `text-${index}`);
    }
    expect(await filters()).toEqual({ text_coarse: false, text_fine: true });
    expect(await found()).toEqual([1, 1, 0, 2]);
    await clickhouse.client.command({ query: "OPTIMIZE TABLE events FINAL" });
    expect(await filters()).toEqual({ text_coarse: true, text_fine: true });
    expect(await found()).toEqual([1, 1, 0, 2]);
  });

  test("a store of an older schema is migrated while its parts still get the former indexes, by two at once as well", async () => {
    await clickhouse.client.command({ query: "CREATE DATABASE IF NOT EXISTS old" });
    await using old = withDisposal(connectClickHouse(clickhouse.url.replace(/\w+$/, "old")));
    const { client } = old;
    const options = { retentionDays: 3_000 };
    for (const query of TABLES.flatMap((table) => createTable(table, options)))
      await client.command({ query });
    const batch = [1, 2, 3].map((seed) => ({ event: makeEvent(seed), addTokens: adding("a\0b") }));
    await makeEventStoreWriter(client).insertEvents(batch, "old");
    await client.command({ query: "SYSTEM STOP MERGES old.events" });
    await Promise.all([migrateClickHouse(client, options), migrateClickHouse(client, options)]);
    expect(await migrateClickHouse(client, options)).toEqual({ applied: [] });
    await client.command({ query: "SYSTEM START MERGES old.events" });
    expect(await makeEventStoreReader(client).count("org_a", { terms: [], token: "a\0b" })).toBe(3);
  });

  test("an event of an older schema and its attempts read the same before their details are gathered, after it, and as a new one", async () => {
    await clickhouse.client.command({ query: "CREATE DATABASE IF NOT EXISTS apart" });
    await using apart = withDisposal(connectClickHouse(clickhouse.url.replace(/\w+$/, "apart")));
    const { client } = apart;
    const options = { retentionDays: 3_000 };
    for (const query of TABLES.flatMap((table) => createTable(table, options)))
      await client.command({ query });
    const rejected = {
      signatureValid: false,
      verificationError: "no \"header\",\n\tor '\\' \u{1f642}",
      reason: "signature_missing",
      contentType: null,
      query: "a=%F0&b='",
      body: Buffer.from([0, 0xff, 0x0a]),
    };
    const stored = [makeEvent(1), makeEvent(2, rejected)];
    const tries = [
      makeAttempt(stored[0]!, { id: "att_a", status: "failed", nextRetryAtMs: BASE_TIME_MS + 1 }),
      makeAttempt(stored[0]!, { id: "att_b", attemptedAtMs: BASE_TIME_MS + 5_000, httpStatus: 0 }),
    ];
    const record = async (token: string): Promise<void> => {
      const rows = stored.map((event) => ({ event, addTokens: adding() }));
      await makeEventStoreWriter(client).insertEvents(rows, token);
      await makeEventStoreWriter(client).insertOutcomes(tries, token);
    };
    const own = makeEventStoreReader(client);
    const read = (): Promise<unknown> =>
      Promise.all(
        stored.map(async (event) => ({
          event: await own.event(event.orgId, event),
          attempts: await own.attempts(event.orgId, event),
          outcomes: await own.outcomes(event.orgId, event),
        })),
      );
    const expected = [tries.map(shownOf), []].map((attempts, index) => {
      const event = stored[index];
      return { event, attempts, outcomes: { attempts, destinationIds: null } };
    });
    // An ephemeral column accepts what today's writer inserts, and stores none of it.
    await client.command({
      query: "ALTER TABLE attempts ADD COLUMN details Array(Nullable(String)) EPHEMERAL",
    });
    await record("former");
    await client.command({ query: "ALTER TABLE attempts DROP COLUMN details" });
    await client.command({ query: "SYSTEM STOP MERGES apart.events" });
    await client.command({ query: "SYSTEM STOP MERGES apart.attempts" });
    await migrateClickHouse(client, options);
    expect(await read()).toEqual(expected);
    await client.command({ query: "SYSTEM START MERGES apart.events" });
    await client.command({ query: "SYSTEM START MERGES apart.attempts" });
    await waitFor("the details of former parts", async () => {
      const answer = await client.query({
        query:
          "SELECT count() AS left FROM system.mutations WHERE database = 'apart' AND NOT is_done",
        format: "JSONEachRow",
      });
      return (await answer.json<{ left: number }>())[0]!.left === 0;
    });
    expect(await read()).toEqual(expected);
    for (const table of ["events", "attempts"])
      await client.command({ query: `TRUNCATE TABLE ${table}` });
    await record("new");
    expect(await read()).toEqual(expected);
  });

  test("leaves are hashed here as ClickHouse hashes them", async () => {
    const random = seededRandom(1);
    const tokens = Array.from({ length: 40 }, (_, length) =>
      Array.from({ length }, () => String.fromCodePoint(Math.floor(random() * 0x2fff))).join(""),
    );
    const answer = await clickhouse.client.query({
      query: "SELECT toString(sipHash64(unhex(arrayJoin({tokens:Array(String)})))) AS hash",
      query_params: { tokens: tokens.map((token) => Buffer.from(token).toString("hex")) },
      format: "JSONEachRow",
    });
    const hashes = await answer.json<{ hash: string }>();
    expect(tokens.map((token) => String(sipHash64(token)))).toEqual(hashes.map((row) => row.hash));
    expect(new Set(hashes.map((row) => row.hash)).size).toBe(40);
  });

  test("another retention is taken over by the tables that are there, also one that the former begins with", async () => {
    for (const retentionDays of [4_000, 400, 4_000]) {
      await migrateClickHouse(clickhouse.client, { retentionDays });
      const answer = await clickhouse.client.query({
        query: `SELECT count() AS n FROM system.tables
          WHERE database = currentDatabase() AND engine_full LIKE '%toIntervalDay(${retentionDays})%'`,
        format: "JSONEachRow",
      });
      expect(await answer.json()).toEqual([{ n: 3 }]);
    }
  });

  test("a database that a newer relay has migrated is refused", async () => {
    const { client } = clickhouse;
    const table = "schema_migrations";
    const asked = await client.query({
      query: `SELECT max(version) + 1 AS version FROM ${table}`,
      format: "JSONEachRow",
    });
    const [next] = await asked.json<{ version: number }>();
    await client.insert({ table, values: [{ ...next, name: "x" }], format: "JSONEachRow" });
    await expect(migrateClickHouse(client, { retentionDays: 3_000 })).rejects.toThrow(
      /newer relay/,
    );
    await client.command({ query: `DELETE FROM ${table} WHERE name = 'x'` });
  });
});

describe("the event store", () => {
  test("gives an event back byte for byte", async () => {
    const body = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    const event = makeEvent(1, {
      orgId: "org_bytes",
      body,
      headers: [
        ["X-A", "1: 2"],
        ["x-a", ""],
        ["Odd", "line\nfeed"],
      ],
      contentType: null,
      verificationError: 'it\'s "wrong" \\',
      signatureValid: false,
      query: "a=%00&b='",
      payloadSizeBytes: 2 ** 40,
    });
    await writer.insertEvents([{ event, addTokens: adding() }], "bytes");
    const found = await reader.event("org_bytes", event);
    expect({ ...found, body: Buffer.from(found!.body) }).toEqual(event);
    expect(await reader.event("org_other", event)).toBeNull();
  });

  test("gives several events back in one statement, whenever they came, but for large payloads, and those of others", async () => {
    const body = Buffer.from([0, 255, 10, 39, 92]);
    const events = [0, 1, 2].map((day) =>
      makeEvent(day, { orgId: "org_several", body, receivedAtMs: BASE_TIME_MS + day * 86_400_123 }),
    );
    const atLimit = makeEvent(3, { orgId: "org_several", body: Buffer.alloc(65_536, "a") });
    const large = makeEvent(4, { orgId: "org_several", body: Buffer.alloc(65_537, "a") });
    const unknown = makeEvent(5, { orgId: "org_several" });
    const stored = [...events, atLimit, large];
    const rows = stored.map((event) => ({ event, addTokens: adding() }));
    for (const token of ["several", "several again"]) await writer.insertEvents(rows, token);
    const found = await reader.smallEvents("org_several", [...stored, unknown, events[0]!]);
    const plain = [...found].map(([id, event]) => [
      id,
      event === "large" ? event : { ...event, body: Buffer.from(event.body) },
    ]);
    expect(plain).toEqual(stored.map((event) => [event.id, event === large ? "large" : event]));
    expect(await reader.smallEvents("org_other", stored)).toEqual(new Map());
  });

  test("what came of an event are its attempts and all destinations of its fan-outs, each once however often it is stored", async () => {
    const event = makeEvent(1, { orgId: "org_outcomes" });
    const tries = [
      makeAttempt(event, { id: "att_a", status: "failed", nextRetryAtMs: BASE_TIME_MS + 1 }),
      makeAttempt(event, { id: "att_b", attemptedAtMs: BASE_TIME_MS + 5_000 }),
    ];
    for (const token of ["outcomes", "outcomes again"]) {
      await writer.insertOutcomes(
        [
          makeFanout(event, { destinationIds: ["dst_1", "dst_2"] }),
          ...tries,
          makeFanout(event, { run: "01REPLAY", destinationIds: ["dst_2", "dst_3"] }),
        ],
        token,
      );
    }
    const { attempts, destinationIds } = await reader.outcomes("org_outcomes", event);
    expect(attempts).toEqual(tries.map(shownOf));
    expect(destinationIds!.toSorted()).toEqual(["dst_1", "dst_2", "dst_3"]);
    const nobody = makeEvent(2, { orgId: "org_outcomes" });
    await writer.insertOutcomes([makeFanout(nobody, { destinationIds: [] })], "to nobody");
    expect(await reader.outcomes("org_outcomes", nobody)).toEqual({
      attempts: [],
      destinationIds: [],
    });
    for (const none of [
      reader.outcomes("org_other", event),
      reader.outcomes("org_outcomes", makeEvent(3)),
    ])
      expect(await none).toEqual({ attempts: [], destinationIds: null });
  });

  test("fan-outs that an earlier version wrote into a table of their own count with those among the attempts", async () => {
    const orgId = "org_former";
    // A page may hold events of before and after the change, however far apart.
    const [both, former, later] = [1, 2, 3_600_000].map((seed) => makeEvent(seed, { orgId }));
    const former1 = { org_id: orgId, event_received_at: both!.receivedAtMs, event_id: both!.id };
    const former2 = {
      org_id: orgId,
      event_received_at: former!.receivedAtMs,
      event_id: former!.id,
    };
    const lineOf = (row: typeof former1, destinations: string) =>
      `('${row.org_id}', fromUnixTimestamp64Milli(${row.event_received_at}), '${row.event_id}', 'event', ${destinations}, now64(3))`;
    const rowsOfFormer = [lineOf(former1, "['dst_1', 'dst_2']"), lineOf(former2, "[]")].join(", ");
    await clickhouse.client.command({ query: `INSERT INTO fanouts VALUES ${rowsOfFormer}` });
    await writer.insertOutcomes(
      [
        makeFanout(both!, { run: "01REPLAY", destinationIds: ["dst_2", "dst_3"] }),
        makeAttempt(both!, { destinationId: "dst_2", status: "delivered" }),
        makeFanout(later!, { destinationIds: ["dst_1"] }),
      ],
      "beside former fan-outs",
    );
    const fresh = readerOf(clickhouse);
    const ofBoth = await fresh.outcomes(orgId, both!);
    expect(ofBoth.destinationIds!.toSorted()).toEqual(["dst_1", "dst_2", "dst_3"]);
    expect(ofBoth.attempts).toHaveLength(1);
    expect(await fresh.attempts(orgId, both!)).toEqual(ofBoth.attempts);
    expect((await fresh.outcomes(orgId, former!)).destinationIds).toEqual([]);
    const all = [both!, former!, later!];
    expect(await fresh.fannedOut(orgId, all)).toEqual(new Set(all.map(({ id }) => id)));
    expect(Object.fromEntries(await fresh.summaries(orgId, all))).toEqual({
      [both!.id]: { delivered: 1, failed: 0, pending: 2, total: 3 },
      [former!.id]: { delivered: 0, failed: 0, pending: 0, total: 0 },
      [later!.id]: { delivered: 0, failed: 0, pending: 1, total: 1 },
    });
  });

  test("drops a batch that is repeated under its token, and counts a repeated row once under another", async () => {
    const events = [1, 2, 3].map((seed) => makeEvent(seed, { orgId: "org_dup" }));
    const batch = events.map((event) => ({ event, addTokens: adding() }));
    const before = await rows("events");
    await writer.insertEvents(batch, "same");
    await writer.insertEvents(batch, "same");
    expect(await rows("events")).toBe(before + 3);
    await writer.insertEvents(batch, "other");
    expect(await reader.count("org_dup", everything)).toBe(3);
    const page = await reader.page("org_dup", everything, { offset: 1, limit: 5 });
    expect(page.items.map((item) => item.id)).toEqual([events[1]!.id, events[0]!.id]);
    expect((await reader.facets("org_dup", everything)).totalEvents).toBe(3);
  });

  test("a batch goes in as many inserts as its size as written asks for, each once: one of deep paths was more than the store takes, for ever", async () => {
    const orgId = "org_pieces";
    const batch = Array.from({ length: 10 }, (_, seed) => ({
      event: makeEvent(seed, { orgId }),
      addTokens: adding("k".repeat(1_000), `${"k".repeat(999)}${seed}`),
    }));
    let inserts = 0;
    const failing = {
      exec: (insert: Parameters<ClickHouseClient["exec"]>[0]) => {
        inserts += 1;
        if (inserts === 3) throw new Error("the store went away");
        return clickhouse.client.exec(insert);
      },
    };
    const inPieces = makeEventStoreWriter(failing as unknown as ClickHouseClient, 6_000);
    await expect(inPieces.insertEvents(batch, "pieces")).rejects.toThrow("the store went away");
    expect(await storedOf(orgId)).toBe(6);
    await inPieces.insertEvents(batch, "pieces");
    expect(inserts).toBe(3 + 4);
    expect(await storedOf(orgId)).toBe(10);
  });

  test("takes any time that a clock may show: one of before September 2001 was refused for ever, with all that came after it", async () => {
    const times = [0, 1, 44_582_400_000, 999_999_999_999, 1e12, 1_000_000_000_001, 1e13 - 1, 1e13];
    for (const [index, timeMs] of times.entries()) {
      const event = makeEvent(index, { orgId: "org_clock", receivedAtMs: timeMs });
      await writer.insertEvents([{ event, addTokens: adding() }], `clock${index}`);
      await writer.insertOutcomes(
        [makeAttempt(event, { attemptedAtMs: timeMs, nextRetryAtMs: timeMs })],
        `clock${index}`,
      );
    }
    const young = makeEvent(7, { orgId: "org_clock" });
    const tries = times.map((attemptedAtMs, index) =>
      makeAttempt(young, { attemptedAtMs, nextRetryAtMs: attemptedAtMs, tryNumber: index + 1 }),
    );
    await writer.insertOutcomes(tries, "clock");
    const found = await reader.attempts("org_clock", young);
    expect(found.map(({ attemptedAtMs }) => attemptedAtMs)).toEqual(times);
    expect(found.map(({ nextRetryAtMs }) => nextRetryAtMs)).toEqual(times);
  });

  test("an id of a time that no clock shows is of no event, and keeps none from being found that is asked for with it: it was an error of the API", async () => {
    const event = makeEvent(1, { orgId: "org_far_ahead" });
    await writer.insertEvents([{ event, addTokens: adding() }], "far ahead");
    await writer.insertOutcomes([makeFanout(event)], "far ahead");
    for (const receivedAtMs of [Date.UTC(2287, 0), Date.UTC(2300, 0), 2 ** 48 - 1]) {
      const unknown = makeEvent(2, { receivedAtMs });
      const both = [unknown, event];
      expect(await reader.event(event.orgId, unknown)).toBeNull();
      expect(await reader.existing(event.orgId, both)).toEqual(new Set([event.id]));
      expect(await reader.fannedOut(event.orgId, both)).toEqual(new Set([event.id]));
      expect([...(await reader.summaries(event.orgId, both)).keys()]).toEqual([event.id]);
      expect([...(await reader.smallEvents(event.orgId, both)).keys()]).toEqual([event.id]);
    }
  });

  test("a search finds all texts of payloads that are no UTF-8, and the headers behind them: the index lacked what follows a byte beyond ASCII", async () => {
    const orgId = "org_latin1";
    const bodies = [
      "name=Andr\xe9(Dupont)",
      "voil\xe0order12",
      "\x89PNG\xf0",
      "\xe9\u00e3\u0081\u0082ab\xff",
    ];
    for (const [seed, text] of bodies.entries()) {
      const body = Buffer.from(text, "latin1");
      const event = makeEvent(seed, { orgId, body, headers: [[`X-Zed${seed}`, "end"]] });
      await writer.insertEvents([{ event, addTokens: adding() }], `latin1 ${seed}`);
    }
    // Merging builds the filters of the text.
    await clickhouse.client.command({ query: "OPTIMIZE TABLE events FINAL" });
    const found = async (term: string): Promise<number> => {
      const page = await reader.page(orgId, { terms: [term] }, { offset: 0, limit: 10 });
      expect(await reader.count(orgId, { terms: [term] })).toBe(page.items.length);
      return page.items.length;
    };
    for (const term of ["(dupont)", "name", "order12", "rder12", "x-zed2:", "あab", "あab\uFFFD"])
      expect([term, await found(term)]).toEqual([term, term.includes("\uFFFD") ? 0 : 1]);
    expect(await found("x-zed")).toBe(4);
    const { sql, parameters } = eventCondition(orgId, { terms: ["nowhere"] });
    const plan = await clickhouse.client.query({
      query: `EXPLAIN indexes = 1 SELECT id FROM events WHERE ${sql}`,
      query_params: { ...parameters },
      format: "JSONEachRow",
    });
    const lines = (await plan.json<{ explain: string }>()).map(({ explain }) => explain.trim());
    expect(lines).toEqual(expect.arrayContaining(["Name: text_coarse", "Name: text_fine"]));
  });

  test("a search finds terms that end in four backslashes or more: the index took the wildcard behind them for text", async () => {
    const orgId = "org_backslashes";
    const texts = [String.raw`{"dir":"C:\\\\"}`, String.raw`{"share":"\\\\host\\%"}`, "none"];
    for (const [seed, text] of texts.entries()) {
      const event = makeEvent(seed, { orgId, body: Buffer.from(text) });
      await writer.insertEvents([{ event, addTokens: adding() }], `backslashes ${seed}`);
    }
    // Merging builds the filters of the text.
    await clickhouse.client.command({ query: "OPTIMIZE TABLE events FINAL" });
    for (const term of [
      String.raw`\\\\`,
      String.raw`c:\\\\`,
      String.raw`"dir":"c:\\\\`,
      String.raw`\\\\host`,
      String.raw`\\\\host\\%`,
      String.raw`host\\`,
      String.raw`\\\\\\`,
    ]) {
      const expected = texts.filter((text) => text.toLowerCase().includes(term)).length;
      const page = await reader.page(orgId, { terms: [term] }, { offset: 0, limit: 10 });
      expect([term, page.items.length]).toEqual([term, expected]);
      expect([term, await reader.count(orgId, { terms: [term] })]).toEqual([term, expected]);
    }
  });

  test("a search looks through payloads as they are before it makes UTF-8 of them: fifty megabytes of binary ones were a 503", async () => {
    const orgId = "org_binary";
    const body = Buffer.from([0xff, 0xfe, ...Buffer.from("Needle"), 0x80]);
    const event = makeEvent(1, { orgId, body });
    await writer.insertEvents([{ event, addTokens: adding() }], "binary");
    const { sql } = eventCondition(orgId, { terms: ["needle", "dle"] });
    const asItIs = sql.indexOf(`${SEARCH_TEXT} LIKE {term0:String}`);
    const asUtf8 = sql.indexOf(`${INDEXED_TEXT} LIKE {indexed0:String}`);
    expect(asItIs).toBeGreaterThan(0);
    expect(asUtf8).toBeGreaterThan(asItIs);
    expect(sql).not.toContain(`${INDEXED_TEXT} LIKE {indexed1:String}`);
    const page = await reader.page(orgId, { terms: ["needle", "dle"] }, { offset: 0, limit: 10 });
    expect(page.items.map(({ id }) => id)).toEqual([event.id]);
  });

  test("a search takes wildcards for the characters that they are, in short terms and in those that the indexes know", async () => {
    const orgId = "org_wildcards";
    const texts = ["a_c", "abc", "50%", "5099", "long_word%", "longXword%", "long_wordy"];
    for (const [seed, text] of texts.entries()) {
      const event = makeEvent(seed, { orgId, body: Buffer.from(text) });
      await writer.insertEvents([{ event, addTokens: adding() }], `wildcards ${seed}`);
    }
    for (const term of ["a_c", "50%", "%", "_", "long_word", "ord%", "longxword%"])
      expect([term, await reader.count(orgId, { terms: [term] })]).toEqual([
        term,
        texts.filter((text) => text.toLowerCase().includes(term)).length,
      ]);
  });

  test("an event is found by the status of an attempt as it was recorded last: a repeated try may have ended otherwise", async () => {
    const event = makeEvent(1, { orgId: "org_again" });
    await writer.insertEvents([{ event, addTokens: adding() }], "again");
    const first = makeAttempt(event, { status: "failed" });
    await writer.insertOutcomes([first], "failed");
    await writer.insertOutcomes([{ ...first, status: "delivered" }], "delivered");
    for (const [attemptStatus, count] of [
      ["failed", 0],
      ["delivered", 1],
    ] as const) {
      const filter: StoreFilter = { terms: [], attemptStatus };
      expect(await reader.count(event.orgId, filter)).toBe(count);
      const page = await reader.page(event.orgId, filter, { offset: 0, limit: 5 });
      expect(page.items).toHaveLength(count);
      const facets = await reader.facets(event.orgId, filter);
      expect(facets.byAttemptStatus).toEqual(count === 0 ? [] : [{ value: "delivered", count: 1 }]);
    }
    const sum = async () => (await reader.summaries(event.orgId, [event])).get(event.id);
    expect(await sum()).toEqual({ delivered: 1, failed: 0, pending: 0, total: 1 });
    await writer.insertOutcomes([{ ...first, status: "dead" }], "dead");
    expect(await sum()).toEqual({ delivered: 0, failed: 1, pending: 0, total: 1 });
  });

  test("every statement that a filter makes is limited to the organization, within the others as well", () => {
    const every: StoreFilter = {
      terms: ["word"],
      token: "leaf",
      attemptStatus: "dead",
      destinationId: "dst_1",
    };
    const selects = (filter: StoreFilter) =>
      [eventCondition, attemptCondition].map((toCondition) => {
        const { sql, parameters } = toCondition("org_a", filter);
        expect(parameters).toMatchObject({ org_id: "org_a" });
        const tables = 1 + sql.split("SELECT").length - 1;
        expect(sql.split(/(?:^|WHERE )org_id = \{org_id:String\} ?/)).toHaveLength(1 + tables);
        return tables;
      });
    expect(selects(every)).toEqual([2, 3]);
    expect(selects({ ...every, terms: [], token: undefined })).toEqual([2, 2]);
    expect(selects(everything)).toEqual([1, 1]);
  });

  test("sums up deliveries: the latest try of a destination decides, a deferral does not", async () => {
    const event = makeEvent(7, { orgId: "org_sum" });
    const never = makeEvent(8, { orgId: "org_sum" });
    const nobody = makeEvent(9, { orgId: "org_sum" });
    await writer.insertOutcomes(
      [
        makeFanout(event, { destinationIds: ["dst_1", "dst_2", "dst_3", "dst_4"] }),
        makeFanout(nobody, { destinationIds: [] }),
      ],
      "fanouts",
    );
    await writer.insertOutcomes(
      [
        makeAttempt(event, { destinationId: "dst_1", status: "failed" }),
        makeAttempt(event, { destinationId: "dst_1", tryNumber: 2, status: "delivered" }),
        makeAttempt(event, { destinationId: "dst_1", tryNumber: 3, status: "rate_limited" }),
        makeAttempt(event, { destinationId: "dst_2", status: "dead" }),
        makeAttempt(event, { destinationId: "dst_3", status: "timeout" }),
      ],
      "attempts",
    );
    const summaries = await reader.summaries("org_sum", [event, never, nobody]);
    expect(Object.fromEntries(summaries)).toEqual({
      [event.id]: { delivered: 1, failed: 1, pending: 2, total: 4 },
      [nobody.id]: { delivered: 0, failed: 0, pending: 0, total: 0 },
    });
    const fannedOut = await reader.fannedOut("org_sum", [event, never, nobody]);
    expect(fannedOut).toEqual(new Set([event.id, nobody.id]));
    const tried = makeEvent(10, { orgId: "org_sum" });
    await writer.insertOutcomes([makeAttempt(tried)], "before its fan-out");
    expect(await reader.fannedOut("org_sum", [tried])).toEqual(new Set());
    expect(await reader.fannedOut("org_a", [event])).toEqual(new Set());
    expect(await reader.fannedOut("org_sum", [])).toEqual(new Set());
  });

  test("regression: deliveries of events that lie far apart are summed up from their own rows: a search's page took 0.8 s for each million attempts in between", async () => {
    const orgId = "org_far_apart";
    const events = Array.from({ length: 30_000 }, (_, seed) => makeEvent(seed, { orgId }));
    await writer.insertOutcomes(
      events.map((event) => makeAttempt(event)),
      "far-apart",
    );
    let rowsToRead = 0;
    const estimating: Ask = async (query, parameters, settings, signal) => {
      const estimate = await clickhouse.client.query({
        query: `EXPLAIN ESTIMATE ${query}`,
        query_params: parameters,
        format: "JSONEachRow",
      });
      for (const { table, rows } of await estimate.json<{ table: string; rows: number }>())
        if (table === "attempts") rowsToRead += rows;
      return clickhouse.lookups.ask(query, parameters, settings, signal);
    };
    const estimated = makeEventStoreReader(clickhouse.client, {}, undefined, estimating);
    const summaries = await estimated.summaries(orgId, [events[0]!, events.at(-1)!]);
    expect(rowsToRead).toBeGreaterThan(0);
    expect(rowsToRead).toBeLessThan(events.length / 2);
    expect([...summaries.values()].map(({ delivered }) => delivered)).toEqual([1, 1]);
  });

  test("regression: a try made after the clock was set back follows the one before it: the delivery stayed pending, and each had the other's number", async () => {
    const event = makeEvent(10, { orgId: "org_set_back" });
    const afterMs = (ms: number) => ({ attemptedAtMs: event.receivedAtMs + ms });
    await writer.insertOutcomes([makeFanout(event)], "fanouts of a clock set back");
    const replay = { run: "01REPLAY", ...afterMs(900_000) };
    await writer.insertOutcomes(
      [
        makeAttempt(event, { status: "failed", ...afterMs(7_200_000) }),
        makeAttempt(event, { tryNumber: 2, status: "rate_limited", ...afterMs(7_201_000) }),
        makeAttempt(event, { tryNumber: 2, deferral: 1, status: "delivered", ...afterMs(1_000) }),
        makeAttempt(event, { ...replay, status: "dead" }),
      ],
      "attempts of a clock set back",
    );
    const attempts = await reader.attempts(event.orgId, event);
    expect(attempts.map(({ run, tryNumber, status }) => [run, tryNumber, status])).toEqual([
      ["01REPLAY", 1, "dead"],
      ["event", 1, "failed"],
      ["event", 2, "rate_limited"],
      ["event", 2, "delivered"],
    ]);
    const summaries = await reader.summaries(event.orgId, [event]);
    expect(summaries.get(event.id)).toEqual({ delivered: 1, failed: 0, pending: 0, total: 1 });
  });

  test("only tries tell which run is the latest, not when the event was fanned out: the clock may have been set back after it", async () => {
    const event = makeEvent(11, { orgId: "org_set_back" });
    const afterMs = (ms: number) => ({ attemptedAtMs: event.receivedAtMs + ms });
    await writer.insertOutcomes(
      [
        makeFanout(event, { atMs: event.receivedAtMs + 7_200_000 }),
        makeAttempt(event, { status: "dead", ...afterMs(1_000) }),
        makeAttempt(event, { run: "01REPLAY", status: "delivered", ...afterMs(5_000) }),
      ],
      "a clock set back after the fan-out",
    );
    const attempts = await reader.attempts(event.orgId, event);
    expect(attempts.map(({ status }) => status)).toEqual(["dead", "delivered"]);
    const summaries = await reader.summaries(event.orgId, [event]);
    expect(summaries.get(event.id)).toEqual({ delivered: 1, failed: 0, pending: 0, total: 1 });
  });

  test("tells a limit that was hit from a refusal and from a store that is away", async () => {
    const failure = async (query: string, url = clickhouse.url): Promise<string> => {
      const client = connectClickHouse(url);
      const settings = { max_execution_time: 0.2 };
      const error: unknown = await client.query({ query, clickhouse_settings: settings }).then(
        () => null,
        (reason: unknown) => reason,
      );
      await client.close();
      return toStoreError(error).code;
    };
    const long = "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1";
    expect(await failure(long)).toBe("query_limit");
    const many = "SELECT number FROM numbers(9) SETTINGS max_result_rows = 1, max_block_size = 1";
    expect(await failure(many)).toBe("query_limit");
    expect(await failure("SELECT nothing")).toBe("store_refused");
    expect(await failure(long, "http://relay:x@127.0.0.1:1/relay")).toBe("store_unavailable");
    const rotated = new URL(clickhouse.url);
    rotated.password = "former";
    expect(await failure("SELECT 1", rotated.href)).toBe("store_unavailable");
  });

  test.each([
    "AUTHENTICATION_FAILED 516",
    "ACCESS_DENIED 497",
    "READONLY 164",
    "UNKNOWN_TABLE 60",
    "UNKNOWN_DATABASE 81",
    "TOO_MANY_PARTS 252",
    "SERVER_OVERLOADED 745",
    "CANNOT_SCHEDULE_TASK 439",
    "QUOTA_EXCEEDED 201",
    "NO_ZOOKEEPER 225",
    "CANNOT_OPEN_FILE 76",
    "CANNOT_FSYNC 204",
    "CANNOT_STAT 400",
  ])(
    "a store that answers %s is one that cannot be used: it was an error of the API, or of a store that does not answer",
    (name) => {
      const [type = "", code = ""] = name.split(" ");
      const error = toStoreError(new ClickHouseError({ message: "Told.", code, type }));
      expect(error).toMatchObject({ code: "store_unavailable" });
      expect(error.message).toBe(`ClickHouse cannot be used (${type}): Told.`);
    },
  );
});

describe("a server in trouble", () => {
  /** Runs `ask` against a server that takes every request and responds only with what `answer` does. */
  const withServer = async (
    answer: (response: ServerResponse) => void,
    ask: (client: ClickHouseClient, requested: Promise<unknown>) => Promise<void>,
  ): Promise<void> => {
    const server = createServer((_, response) => answer(response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const client = connectClickHouse(`http://relay:x@127.0.0.1:${port}/relay`);
    try {
      await ask(client, once(server, "request"));
    } finally {
      await client.close();
      server.closeAllConnections();
      server.close();
    }
  };
  const nothing = (): void => undefined;
  const halfOfTheRows = (response: ServerResponse): void => {
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    response.write('{"count":1}\n');
  };

  test.each([
    ["nothing", nothing],
    ["half of the rows", halfOfTheRows],
  ])(
    "that answers %s is waited for no longer than a query may run and its answer takes",
    async (_, answer) => {
      await withServer(answer, async (client) => {
        const limits = { maxSeconds: 0.1, maxMemoryBytes: 1e9 };
        const startedAt = performance.now();
        await expect(
          makeEventStoreReader(client, limits).count("org_a", everything),
        ).rejects.toMatchObject({ code: "store_unavailable" });
        expect(performance.now() - startedAt).toBeLessThan(30_000);
      });
    },
  );

  test("a read whose turn comes too late tells of a busy store, not of one that is away", async () => {
    await withServer(nothing, async (client) => {
      const store = makeEventStoreReader(client, { maxSeconds: 0.1, maxAtOnce: 1 });
      const counts = await Promise.allSettled(
        [1, 2].map(() => store.count("org_a", { terms: ["a"] })),
      );
      expect(counts).toMatchObject([
        { reason: { code: "store_unavailable" } },
        { reason: { code: "store_busy" } },
      ]);
    });
  });

  test("an insert's error does not quote the rows that the server does", async () => {
    const refusal = (response: ServerResponse): void => {
      response.writeHead(400, { "x-clickhouse-exception-code": "27" });
      response.end(
        "Code: 27. DB::Exception: Cannot parse input: expected '\\t' before: 'the payload': (at row 1)\n. (CANNOT_PARSE_INPUT_ASSERTION_FAILED)",
      );
    };
    await withServer(refusal, async (client) => {
      const rows = [{ event: makeEvent(1), addTokens: adding() }];
      const error = await makeEventStoreWriter(client)
        .insertEvents(rows, "refused")
        .catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "store_refused" });
      expect(inspect(error)).toContain("CANNOT_PARSE_INPUT_ASSERTION_FAILED, code 27");
      expect(inspect(error)).not.toContain("the payload");
    });
  });

  const sinceReceived: StoreFilter = { terms: [], fromMs: 0 };
  type Read = (store: EventStoreReader, signal: AbortSignal) => Promise<unknown>;
  const page = { offset: 0, limit: 10 };
  test.each<[string, Read]>([
    ["page", (store, signal) => store.page("org_a", sinceReceived, page, signal)],
    ["page of a search", (store, signal) => store.page("org_a", { terms: ["word"] }, page, signal)],
    ["count", (store, signal) => store.count("org_a", { terms: ["word"] }, signal)],
    ["facets", (store, signal) => store.facets("org_a", { terms: ["word"] }, signal)],
  ])(
    "a %s that nobody waits for any more is given up, and its connections closed",
    async (_, read) => {
      let closed = 0;
      let open = 0;
      const watch = (response: ServerResponse): void => {
        open += 1;
        response.once("close", () => (closed += 1));
      };
      await withServer(watch, async (client, requested) => {
        const left = new AbortController();
        const asked = expect(read(makeEventStoreReader(client), left.signal)).rejects.toMatchObject(
          { code: "store_unavailable" },
        );
        await requested;
        left.abort("the client has gone");
        await asked;
        await waitFor("closed connections", () => open > 0 && closed === open);
      });
    },
  );

  const oneRow = [{ event: makeEvent(1), addTokens: adding() }];
  const answering = (stream: Readable) =>
    makeEventStoreWriter({ exec: async () => ({ stream }) } as unknown as ClickHouseClient);

  test("an insert whose answer begins and does not end is given up after a minute, and by its signal: nothing was recorded any more", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const [late, stopped] = [new PassThrough(), new PassThrough()];
      const stop = new AbortController();
      const inserts = Promise.allSettled([
        answering(late).insertEvents(oneRow, "late"),
        answering(stopped).insertEvents(oneRow, "stopped", stop.signal),
      ]);
      await vi.advanceTimersByTimeAsync(59_000);
      expect([late.destroyed, stopped.destroyed]).toEqual([false, false]);
      stop.abort();
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await inserts).toMatchObject([
        { reason: { code: "store_unavailable", message: expect.stringContaining("60 s") } },
        { reason: { code: "store_unavailable" } },
      ]);
      expect([late.destroyed, stopped.destroyed]).toEqual([true, true]);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("an insert that was given up before it began, or between two of its pieces, is sent no further", async () => {
    const stop = new AbortController();
    const sent: unknown[] = [];
    const exec = async ({ clickhouse_settings: settings }: ExecParams) => {
      sent.push(settings);
      stop.abort();
      return { stream: Readable.from([]) };
    };
    const inPieces = makeEventStoreWriter({ exec } as unknown as ClickHouseClient, 1);
    const rows = [...oneRow, ...oneRow];
    for (let round = 0; round < 2; round += 1)
      await expect(inPieces.insertEvents(rows, "pieces", stop.signal)).rejects.toMatchObject({
        code: "store_unavailable",
      });
    // Stored before it is answered, and once for its token, whatever the server does by default.
    const settings = { async_insert: 0, insert_deduplicate: 1 };
    expect(sent).toMatchObject([{ ...settings, insert_deduplication_token: "pieces+0-1" }]);
  });

  test("an insert that fails after the server has said that all is well has failed: its rows were taken for stored", async () => {
    const told = "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)";
    const insert = answering(Readable.from([Buffer.from(told)])).insertEvents(oneRow, "told");
    await expect(insert).rejects.toMatchObject({ code: "query_limit" });
  });

  test("an insert that was given up is not kept", async () => {
    await withServer(nothing, async (client, requested) => {
      const stop = new AbortController();
      const insert = makeEventStoreWriter(client).insertEvents(
        [{ event: makeEvent(1), addTokens: adding() }],
        "hanging",
        stop.signal,
      );
      const failed = expect(insert).rejects.toMatchObject({ code: "store_unavailable" });
      await requested;
      stop.abort();
      await failed;
    });
  });
});

const partsOf = async (table: string): Promise<readonly Part[]> => {
  const answer = await clickhouse.client.query({ query: SELECT_PARTS, format: "JSONEachRow" });
  return (await answer.json<PartJson>()).map(toPart).filter((part) => part.table === table);
};

describe("counts of distinct parts", () => {
  const orgId = "org_counted";
  const batch = [1, 2, 3, 4].map((seed) => ({
    event: makeEvent(seed, { orgId }),
    addTokens: adding(),
  }));
  const attempts = batch.map(({ event }) => makeAttempt(event, { status: "delivered" }));
  const counts = async () => {
    const facets = await reader.facets(orgId, everything);
    return [
      facets.totalEvents,
      await reader.count(orgId, everything),
      facets.byAttemptStatus,
    ] as const;
  };

  test("are exact before and after a merge, and when rows come again or anew", async () => {
    const all = [4, 4, [{ value: "delivered", count: 4 }]] as const;
    await writer.insertEvents(batch, "counted-1");
    const fanouts = batch.map(({ event }) => makeFanout(event, { destinationIds: ["dst_1"] }));
    await writer.insertOutcomes([...fanouts, ...attempts], "counted-a1");
    expect(await counts()).toEqual(all);
    for (const table of ["events", "attempts"])
      await clickhouse.client.command({ query: `OPTIMIZE TABLE ${table} FINAL` });
    expect(await counts()).toEqual(all);
    await writer.insertEvents(batch.slice(1), "counted-2");
    await writer.insertOutcomes(attempts.slice(1), "counted-a2");
    expect(await counts()).toEqual(all);
    const late = makeEvent(5, { orgId });
    await writer.insertEvents([{ event: late, addTokens: adding() }], "counted-3");
    expect(await counts()).toEqual([5, 5, all[2]]);
    expect((await reader.facets("org_nobody", everything)).totalEvents).toBe(0);
  });

  test("are exact for a user who may not see the parts", async () => {
    const { client } = clickhouse;
    const denied = Object.assign(Object.create(client) as typeof client, {
      query: (params: QueryParams) =>
        params.query.includes("system.parts")
          ? Promise.reject(new ClickHouseError({ message: "Not enough privileges", code: "497" }))
          : client.query(params),
    });
    const facets = await makeEventStoreReader(denied).facets(orgId, everything);
    expect(facets.totalEvents).toBe(5);
    const broken = Object.assign(Object.create(client) as typeof client, {
      query: () => Promise.reject(new Error("connect ECONNREFUSED")),
    });
    await expect(makeEventStoreReader(broken).count(orgId, everything)).rejects.toMatchObject({
      code: "store_unavailable",
    });
  });

  test("are read from what a part keeps, not from its rows", async () => {
    for (const [count, columns] of [
      [FACETS_OF_EVENTS, "provider"],
      [FACETS_OF_ATTEMPTS, "status"],
      [COUNT_EVENTS, "count()"],
    ] as const) {
      await clickhouse.client.command({ query: `OPTIMIZE TABLE ${count.table} FINAL` });
      const reading = readingOf(
        await partsOf(count.table),
        () => true,
        () => false,
      );
      expect(reading).toMatchObject({ early: [], isComplete: true });
      const { sql, parameters } = countStatement(count, reading, ALL_TIME);
      const condition = `org_id = '${orgId}' AND endpoint_id = 'ep_1' AND provider = 'github'`;
      const explained = await clickhouse.client.query({
        query: `EXPLAIN projections = 1 ${sql.replaceAll(/%WHERE%|%SCOPE%/g, condition)}`,
        query_params: { ...parameters },
        format: "JSONEachRow",
      });
      const plan = (await explained.json<{ explain: string }>()).map(({ explain }) => explain);
      expect(plan.join("\n"), columns).toContain("(facets)");
    }
  });
});

describe("parts", () => {
  const day = Date.UTC(2026, 9, 1);
  const rowAt = (ms: number) => ({
    event: makeEvent(ms, { orgId: `org_${ms % 2}`, receivedAtMs: day + ms }),
    addTokens: adding(),
  });
  const repeated = async (parts: readonly string[], fromMs: number) => {
    const answer = await clickhouse.client.query({
      query: repeatedRowsStatement("events"),
      query_params: { parts, from_ms: fromMs },
      format: "JSONEachRow",
    });
    return (await answer.json())[0];
  };
  const merges = (verb: "START" | "STOP") =>
    clickhouse.client.command({ query: `SYSTEM ${verb} MERGES events` });
  // By itself the server merges the parts after a while, on a slow machine between two of these tests.
  beforeAll(() => merges("STOP"));
  afterAll(() => merges("START"));

  test("are listed with their times, the numbers of their blocks and the start of their server", async () => {
    await writer.insertEvents([rowAt(1_500), rowAt(7_300)], "parts-1");
    await writer.insertEvents([rowAt(3_000)], "parts-2");
    const own = (await partsOf("events")).filter((part) => part.day === "20261001");
    expect(own.map(({ fromMs, untilMs }) => [fromMs - day, untilMs - day])).toEqual([
      [1_000, 8_000],
      [3_000, 4_000],
    ]);
    expect(own[1]!.lastBlock).toBeGreaterThan(own[0]!.lastBlock);
    const [first] = own;
    expect(first!.table).toBe("events");
    expect(first!.storedIn).toMatch(/^[\da-f-]{36}$/);
    expect(Math.abs(first!.startedS - Date.now() / 1_000)).toBeLessThan(3_600);
    await merges("START");
    await clickhouse.client.command({
      query: "OPTIMIZE TABLE events PARTITION '2026-10-01' FINAL",
    });
    await merges("STOP");
    const merged = (await partsOf("events")).filter((part) => part.day === "20261001");
    expect(merged).toMatchObject([{ isCollapsed: true, lastBlock: own[1]!.lastBlock }]);
  });

  test("tell whether a row is in two of them from a time on, and whether one is missing", async () => {
    await writer.insertEvents([rowAt(3_000), rowAt(9_000)], "parts-3");
    const names = (await partsOf("events"))
      .filter((part) => part.day === "20261001")
      .map(({ name }) => name);
    expect(names).toHaveLength(2);
    expect(await repeated(names, day)).toEqual({ stored: 5, parts: 2, different: 4 });
    expect(await repeated(names, day + 3_001)).toEqual({ stored: 2, parts: 2, different: 2 });
    expect(await repeated([...names, "20261001_9_9_0"], day + 3_001)).toMatchObject({ parts: 2 });
  });

  test("of an open day are counted in every way that can be known of them, and all ways agree", async () => {
    const all = await partsOf("events");
    const own = all.filter((part) => part.day === "20261001");
    const within = ({ fromMs, untilMs }: typeof ALL_TIME): string =>
      fromMs === -Infinity
        ? "true"
        : `toUnixTimestamp64Milli(received_at) BETWEEN ${fromMs} AND ${untilMs - 1}`;
    const counted = async (known: readonly Part[], asked = ALL_TIME) => {
      const reading = readingOf(
        own,
        (part) => known.includes(part),
        () => false,
      );
      const { sql, parameters } = countStatement(COUNT_EVENTS, reading, asked);
      const answer = await clickhouse.client.query({
        query: sql
          .replaceAll("%WHERE%", `%SCOPE% AND ${within(asked)}`)
          .replaceAll("%SCOPE%", "toDate(received_at) = '2026-10-01'"),
        query_params: { ...parameters },
        format: "JSONEachRow",
        clickhouse_settings: { do_not_merge_across_partitions_select_final: 1 },
      });
      const rowsOf = await answer.json<{ count: number }>();
      return rowsOf.reduce((sum, row) => sum + row.count, 0);
    };
    const [older, newer] = own.toSorted((a, b) => a.lastBlock - b.lastBlock);
    expect(
      readingOf(
        own,
        (part) => part === older,
        () => false,
      ),
    ).toMatchObject({
      early: [older!.name],
      spans: [{ fromMs: day + 1_000, untilMs: day + 3_000 }],
    });
    for (const known of [[], [older!], [newer!]]) expect(await counted(known)).toBe(4);
    for (const [fromMs, untilMs, count] of [
      [day, day + 60_000, 4],
      [day + 3_000, day + 60_000, 3],
      [day + 1_000, day + 8_000, 3],
      [day + 9_000, day + 10_000, 1],
      [day + 20_000, day + 60_000, 0],
    ] as const)
      for (const known of [[], [older!], [newer!]])
        expect(await counted(known, { fromMs, untilMs })).toBe(count);
    // Parts wrongly taken as known count the repeated row twice: the pieces are really read separately.
    expect(await counted([older!, newer!])).toBe(5);
  });
});

test("counts are exact while rows come, come again with another status and are merged", async () => {
  const orgId = "org_while";
  const own = readerOf(clickhouse);
  const random = seededRandom(7);
  const day = Date.UTC(2026, 9, 5);
  // An event every two seconds, so that events fall both into the last minute and before it.
  const rowOf = (seed: number) => makeEvent(seed, { orgId, receivedAtMs: day + seed * 2_000 });
  const progress = { sent: 0, stored: 0, isDone: false };
  const record = async (): Promise<void> => {
    for (let batch = 0; batch < 40; batch += 1) {
      const fresh = Array.from({ length: 10 }, (_, index) => rowOf(progress.sent + index));
      const again =
        progress.sent === 0 || random() < 0.7 ? [] : [rowOf(Math.floor(random() * progress.sent))];
      progress.sent += fresh.length;
      const batchRows = [...fresh, ...again];
      await writer.insertEvents(
        batchRows.map((event) => ({ event, addTokens: adding() })),
        `while-${batch}`,
      );
      await writer.insertOutcomes(
        batchRows.map((event) =>
          makeAttempt(event, { status: again.includes(event) ? "dead" : "delivered" }),
        ),
        `while-${batch}`,
      );
      progress.stored = progress.sent;
      const table = random() < 0.5 ? "events" : "attempts";
      if (random() < 0.2)
        await clickhouse.client.command({
          query: `OPTIMIZE TABLE ${table} PARTITION '2026-10-05'`,
        });
    }
    progress.isDone = true;
  };
  const ask = async (): Promise<void> => {
    while (!progress.isDone) {
      const least = progress.stored;
      const [count, facets] = await Promise.all([
        own.count(orgId, everything),
        own.facets(orgId, everything),
      ]);
      const attempts = facets.byAttemptStatus.reduce((sum, entry) => sum + entry.count, 0);
      for (const found of [count, facets.totalEvents, attempts]) {
        expect(found).toBeGreaterThanOrEqual(least);
        expect(found).toBeLessThanOrEqual(progress.sent);
      }
    }
  };
  await Promise.all([record(), ask()]);
  const last = await own.facets(orgId, everything);
  const truth = await clickhouse.client.query({
    query: `SELECT status AS value, count() AS count FROM attempts FINAL WHERE org_id = '${orgId}' GROUP BY status ORDER BY count DESC`,
    format: "JSONEachRow",
  });
  expect(last.totalEvents).toBe(400);
  expect(last.byAttemptStatus).toEqual(await truth.json());
});

describe("pages", () => {
  test("of a search are the same from the newest events as from all, repeated rows among them", async () => {
    const orgId = "org_newest";
    const eventsOf = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, index) => ({
        event: makeEvent(from + index, {
          orgId,
          receivedAtMs: BASE_TIME_MS + (from + index) * 2_000,
          body: Buffer.from(`{"word":"${(from + index) % 3 === 0 ? "Common" : "other"}"}`),
        }),
        addTokens: adding(),
      }));
    for (const [from, to] of [
      [0, 400],
      [300, 400],
      [350, 400],
    ] as const)
      await writer.insertEvents(eventsOf(from, to), `newest-${from}`);
    const nowMs = BASE_TIME_MS + 400 * 2_000;
    const at = (ms: number) =>
      makeEventStoreReader(clickhouse.client, undefined, { now: () => ms, monotonic: () => 0 });
    const search = { terms: ["common"] };
    for (const page of [
      { offset: 0, limit: 20 },
      { offset: 20, limit: 25 },
      { offset: 40, limit: 50 },
      { offset: 120, limit: 50 },
      { offset: 200, limit: 50 },
    ]) {
      const found = await at(nowMs).page(orgId, search, page);
      const expected = await at(nowMs + 86_400_000).page(orgId, search, page);
      expect(found).toEqual(expected);
      expect(found.items).toHaveLength(Math.max(0, Math.min(page.limit, 134 - page.offset)));
    }
  });

  test("every event is on one page exactly once, however many copies are not merged yet", async () => {
    const orgId = "org_pages";
    const rowsOf = (count: number) =>
      Array.from({ length: count }, (_, seed) => ({
        event: makeEvent(seed, { orgId }),
        addTokens: adding(),
      }));
    // Three copies of 150 events in separate parts: more than a page reads beyond its end.
    for (const copy of [1, 2, 3]) await writer.insertEvents(rowsOf(150), `copy-${copy}`);
    const found: string[] = [];
    for (let offset = 0; ; offset += 40) {
      const { items, total } = await reader.page(orgId, everything, { offset, limit: 40 });
      found.push(...items.map((item) => item.id));
      expect(total).toBe(items.length < 40 ? 150 : null);
      if (items.length < 40) break;
    }
    const expected = rowsOf(150).map(({ event }) => event.id);
    expect(found).toEqual(expected.toSorted().toReversed());
    const behind = { items: [], total: 150 };
    expect(await reader.page(orgId, everything, { offset: 150, limit: 40 })).toEqual(behind);
    expect(await reader.page(orgId, everything, { offset: 100_000, limit: 40 })).toEqual(behind);
    const none = { items: [], total: 0 };
    expect(await reader.page("org_nobody", everything, { offset: 0, limit: 40 })).toEqual(none);
  });

  test("of more events of one millisecond than are read for a page, each is on one page, by their ids", async () => {
    const of = { orgId: "org_moment", receivedAtMs: BASE_TIME_MS };
    const events = Array.from({ length: 200 }, (_, seed) => makeEvent(seed, of));
    const rowsOfMoment = events.map((event) => ({ event, addTokens: adding() }));
    await writer.insertEvents(rowsOfMoment, "moment");
    const found: string[] = [];
    for (let offset = 0; offset < events.length; offset += 20) {
      const { items } = await reader.page(of.orgId, everything, { offset, limit: 20 });
      found.push(...items.map(({ id }) => id));
    }
    expect(found).toEqual(events.map(({ id }) => id).toReversed());
  });

  test("a page far behind is the same when all before its minute are only counted", async () => {
    const orgId = "org_deep";
    const random = seededRandom(7);
    const events = Array.from({ length: 200 }, (_, seed) =>
      makeEvent(seed, {
        orgId,
        receivedAtMs: BASE_TIME_MS + Math.floor(random() * 600_000),
        signatureValid: random() < 0.7,
      }),
    );
    const rowsOf = (some: typeof events) => some.map((event) => ({ event, addTokens: adding() }));
    await writer.insertEvents(rowsOf(events), "deep");
    await writer.insertEvents(rowsOf(events.slice(0, 120)), "deep again");
    const deep = makePage({
      select: async <Row>(...asked: Parameters<PagePorts["select"]>) => {
        const [query, query_params, clickhouse_settings] = asked;
        const format = "JSONEachRow" as const;
        const answer = await clickhouse.client.query({
          query,
          query_params,
          clickhouse_settings,
          format,
        });
        return answer.json<Row>();
      },
      count: (...asked) => reader.count(...asked),
      now: () => Date.now(),
      deepOffset: 1,
    });
    const toMs = BASE_TIME_MS + 433_217;
    for (const filter of [everything, { terms: [], signatureValid: true, toMs }])
      for (const offset of [1, 7, 40, 99, 100, 133, 160, 195, 199, 200, 5_000]) {
        const range = { offset, limit: 10 };
        const [found, expected] = await Promise.all([
          deep(orgId, filter, range),
          reader.page(orgId, filter, range),
        ]);
        expect(found).toEqual(expected);
      }
    expect(await deep("org_nobody", everything, { offset: 1, limit: 10 })).toEqual({
      items: [],
      total: 0,
    });
  });
});
