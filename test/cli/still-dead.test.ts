import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import type { Attempt } from "../../src/client/types.ts";
import type { DeadEvent } from "../../src/cli/find-dead-events.ts";
import { replay } from "../../src/cli/replay.ts";
import { isDeadAt, tellByLists, type ListQuestions } from "../../src/cli/still-dead.ts";

const DEAD = { delivered: 0, failed: 1, pending: 0, total: 1 };
const DEAD_AT_ONE = { delivered: 1, failed: 1, pending: 0, total: 2 };
const NOON_MS = Date.UTC(2026, 10, 26, 12);

function diedWith(...summaries: readonly DeadEvent["summary"][]): DeadEvent[] {
  return summaries.map((summary, index) => ({
    id: `evt_${index}`,
    receivedAtMs: NOON_MS + index * 1_000,
    summary,
  }));
}

/** Answers for an endpoint that received `count` events; `asked` are the questions so far. */
function answersOf({
  count = 5,
  delivered = [] as string[] | null,
  putOff = [] as string[] | null,
}) {
  const asked: string[] = [];
  const spans = new Set<string>();
  const questions: ListQuestions = {
    async count({ fromMs, untilMs }) {
      asked.push("count");
      spans.add(`${fromMs - NOON_MS} ${untilMs - NOON_MS}`);
      return count;
    },
    async having({ fromMs, untilMs }, status) {
      asked.push(status);
      spans.add(`${fromMs - NOON_MS} ${untilMs - NOON_MS}`);
      const ids = status === "delivered" ? delivered : putOff;
      return ids === null ? null : new Set(ids);
    },
  };
  return { questions, asked, spans };
}

test("what is not delivered anywhere, or only elsewhere, is still dead; what was delivered since is not", async () => {
  const delivered = { delivered: 2, failed: 0, pending: 0, total: 2 };
  const events = diedWith(DEAD, delivered, DEAD_AT_ONE, DEAD, DEAD, DEAD);
  const { questions, spans } = answersOf({});
  expect(Object.fromEntries(await tellByLists(events, questions))).toEqual({
    evt_0: true,
    evt_1: false,
    evt_2: true,
    evt_3: true,
    evt_4: true,
    evt_5: true,
  });
  expect([...spans]).toEqual(["0 5001"]);
});

test("what lists cannot tell is left to be asked for: delivered or put off there, pending, of unknown fan-out", async () => {
  const pending = { delivered: 0, failed: 1, pending: 1, total: 2 };
  const events = diedWith(DEAD_AT_ONE, DEAD, pending, null, DEAD, DEAD, DEAD);
  const { questions } = answersOf({ delivered: ["evt_0"], putOff: ["evt_1"] });
  const told = await tellByLists(events, questions);
  expect([...told.keys()]).toEqual(["evt_4", "evt_5", "evt_6"]);
});

test("lists of more than a page tell nothing", async () => {
  const events = diedWith(DEAD, DEAD, DEAD, DEAD);
  for (const lists of [{ delivered: null }, { putOff: null }])
    expect((await tellByLists(events, answersOf(lists).questions)).size).toBe(0);
});

test("the store is not made to list what was delivered among many events for a few dead ones", async () => {
  const rare = answersOf({ count: 41 });
  expect((await tellByLists(diedWith(DEAD, DEAD, DEAD, DEAD), rare.questions)).size).toBe(0);
  expect(rare.asked).toEqual(["count"]);
  const few = answersOf({});
  expect((await tellByLists(diedWith(DEAD, DEAD, DEAD), few.questions)).size).toBe(0);
  expect(few.asked).toEqual([]);
});

test.each([
  [true, "its only try died", "dead 1"],
  [true, "a try that its rate limit had put off died", "rate_limited 1, failed 1, dead 2"],
  [true, "a replay died, too", "dead 1, dead 2"],
  [false, "it was delivered by a replay", "dead 1, delivered 2"],
  [false, "the try of a replay is put off", "dead 1, rate_limited 2"],
  [false, "a replay is tried again", "dead 1, failed 2"],
])("dead is %s where %s", (isDead, _where, rows) => {
  const attempts = rows.split(", ").flatMap((row) => {
    const [status, number] = row.split(" ");
    const attempt = { status, attempt_number: Number(number) };
    const elsewhere = { status: isDead ? "delivered" : "dead", attempt_number: 1 };
    return [
      { destination_id: "dst_1", ...attempt },
      { destination_id: "dst_2", ...elsewhere },
    ] as Attempt[];
  });
  expect(isDeadAt("dst_1", attempts)).toBe(isDead);
});

test("regression: of 600 dead deliveries each was asked for its attempts singly, now none is", async () => {
  const events = Array.from({ length: 600 }, (_, n) => ({
    id: `evt_${String(n).padStart(4, "0")}`,
    receivedAt: new Date(NOON_MS + n * 60_000).toISOString(),
  }));
  const asked = new Map<string, number>();
  const replayed: string[] = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams: query } = new URL(request.url ?? "", "http://localhost");
    const name = pathname.split("/").at(-1)!;
    asked.set(name, (asked.get(name) ?? 0) + 1);
    if (name === "replay") replayed.push(pathname.split("/")[2]!);
    const found = events.filter(({ receivedAt }) => {
      const isOfStatus = (query.get("attempt_status") ?? "dead") === "dead";
      return isOfStatus && receivedAt >= query.get("from")! && receivedAt < query.get("to")!;
    });
    const [page, limit] = [Number(query.get("page") ?? 1), Number(query.get("limit"))];
    const onPage = found.toReversed().slice((page - 1) * limit, page * limit);
    const data = {
      events: onPage.map(({ id, receivedAt: received_at }) => ({
        id,
        received_at,
        delivery_summary: query.get("delivery_summary") === "true" ? DEAD_AT_ONE : undefined,
      })),
      attempts: [{ destination_id: "dst_1", status: "dead", attempt_number: 1 }],
    }[name];
    const pagination = { total: found.length, has_next: page * limit < found.length };
    response.end(JSON.stringify({ data: data ?? {}, pagination }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const io = {
      argv: [],
      env: { RELAY_BOOTSTRAP_API_KEY: "rk_testtest_0123456789abcdefghijklmnop" },
      signal: new AbortController().signal,
      stdin: new PassThrough(),
      stdout: new PassThrough().resume(),
      stderr: new PassThrough(),
    };
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await replay(io, { destination: "dst_1", url, to: "2026-12-31T00:00:00Z" })).toBe(0);
    expect(replayed.toSorted()).toEqual(events.map(({ id }) => id));
    expect(asked.get("attempts") ?? 0).toBe(0);
    expect(asked.get("events")).toBeLessThan(60);
  } finally {
    server.close();
  }
});
