import type { ClickHouseClient, QueryParams } from "@clickhouse/client";
import { expect, it } from "vitest";
import { MAX_CONNECTIONS } from "../../../src/adapters/clickhouse/connect.ts";
import { makeEventStoreReader } from "../../../src/adapters/clickhouse/queries.ts";
import { ReadShares } from "../../../src/adapters/clickhouse/read-shares.ts";

const never = (): AbortSignal => new AbortController().signal;

/** Makes reads that go on until the test ends them. */
function makeReads(maxAtOnce: number) {
  const shares = new ReadShares(maxAtOnce);
  const running: { readonly orgId: string; readonly end: () => void }[] = [];
  const started: string[] = [];
  return {
    started,
    ask: (orgId: string, signal: AbortSignal = never()): Promise<string> =>
      shares.run(orgId, signal, () => {
        started.push(orgId);
        return new Promise((resolve) => {
          running.push({ orgId, end: () => resolve(`answer for ${orgId}`) });
        });
      }),
    async end(orgId: string): Promise<void> {
      const at = running.findIndex((read) => read.orgId === orgId);
      running.splice(at, 1)[0]?.end();
      await settle();
    },
    count: (orgId: string): number => running.filter((read) => read.orgId === orgId).length,
  };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it("an organization that asks a hundred slow questions leaves room for others", async () => {
  const reads = makeReads(6);
  const slow = Array.from({ length: 100 }, () => reads.ask("org_slow"));
  await settle();
  expect(reads.count("org_slow")).toBe(4);
  const quick = reads.ask("org_quick");
  await settle();
  await reads.end("org_quick");
  expect(await quick).toBe("answer for org_quick");
  for (let ended = 0; ended < 100; ended += 1) await reads.end("org_slow");
  expect(await Promise.all(slow)).toHaveLength(100);
});

it("of those that wait, whoever has fewest under way is next, and never more than all at once", async () => {
  const reads = makeReads(3);
  for (const orgId of ["org_a", "org_a", "org_a", "org_b", "org_c", "org_d"]) void reads.ask(orgId);
  await settle();
  expect(reads.started).toEqual(["org_a", "org_a", "org_b"]);
  await reads.end("org_a");
  expect(reads.started).toEqual(["org_a", "org_a", "org_b", "org_c"]);
  await reads.end("org_a");
  expect(reads.started.slice(4)).toEqual(["org_a"]);
  await reads.end("org_b");
  expect(reads.started.slice(5)).toEqual(["org_d"]);
});

it("where one is answered at a time, organizations take turns", async () => {
  const reads = makeReads(1);
  for (const orgId of ["org_a", "org_a", "org_a", "org_b", "org_b"]) void reads.ask(orgId);
  await settle();
  for (let ended = 0; ended < 4; ended += 1) await reads.end(reads.started.at(-1) ?? "");
  expect(reads.started).toEqual(["org_a", "org_a", "org_b", "org_a", "org_b"]);
});

it("a question that is given up while it waits leaves its turn to the next one", async () => {
  const reads = makeReads(1);
  void reads.ask("org_a");
  const patience = new AbortController();
  const givenUp = reads.ask("org_a", patience.signal);
  const next = reads.ask("org_a");
  patience.abort(new Error("too late"));
  await expect(givenUp).rejects.toThrow("too late");
  await expect(reads.ask("org_a", patience.signal)).rejects.toThrow("too late");
  await reads.end("org_a");
  await reads.end("org_a");
  expect(await next).toBe("answer for org_a");
  expect(reads.started).toHaveLength(2);
});

it("a read that fails, or does not end when it is given up, frees its place", async () => {
  const shares = new ReadShares(1);
  const patience = new AbortController();
  const hanging = shares.run("org_a", patience.signal, () => new Promise(() => {}));
  patience.abort(new Error("too late"));
  await expect(hanging).rejects.toThrow("too late");
  const failing = () => Promise.reject(new Error("no table"));
  await expect(shares.run("org_a", never(), failing)).rejects.toThrow("no table");
  expect(await shares.run("org_a", never(), () => Promise.resolve("read"))).toBe("read");
});

it("the reader's questions of one organization never take all connections", async () => {
  let asked = 0;
  const client = {
    query: async ({
      query_params,
    }: {
      readonly query_params: Readonly<Record<string, unknown>>;
    }) => {
      asked += 1;
      const isAnswered = query_params["org_id"] === "org_quick" && asked <= MAX_CONNECTIONS;
      if (!isAnswered) await new Promise(() => {});
      return { json: async () => [{ count: 3 }], close: () => undefined };
    },
  } as unknown as ClickHouseClient;
  const reader = makeEventStoreReader(client, { maxSeconds: 0 });
  const filter = { terms: ["needle"] };
  const slow = Array.from({ length: 50 }, () => reader.count("org_slow", filter));
  const ends = Promise.allSettled(slow);
  await settle();
  expect(await reader.count("org_quick", filter)).toBe(3);
  expect(new Set((await ends).map(({ status }) => status))).toEqual(new Set(["rejected"]));
});

it("regression: an event by its id is read while searches have all their places: it waited behind them for up to 12 s", async () => {
  const maxAtOnce = 6;
  let underWay = 0;
  const client = {
    query: async ({ query_params }: QueryParams) => {
      underWay += 1;
      const isSearch = query_params !== undefined && "term0" in query_params;
      if (isSearch || underWay > maxAtOnce) await new Promise(() => {});
      underWay -= 1;
      return { json: async () => [], close: () => undefined };
    },
  } as unknown as ClickHouseClient;
  const reader = makeEventStoreReader(client, { maxSeconds: 0, maxAtOnce });
  const orgIds = Array.from({ length: 20 }, (_, index) => `org_${index}`);
  const searches = orgIds.flatMap((orgId) =>
    [1, 2, 3].map(() => reader.count(orgId, { terms: ["needle"] })),
  );
  const ends = Promise.allSettled(searches);
  await settle();
  expect(underWay).toBe(maxAtOnce - 1);
  const keys = [1, 2, 3].map((number) => ({ id: `evt_${number}`, receivedAtMs: 1_000 }));
  expect(await Promise.all(keys.map((key) => reader.event("org_0", key)))).toEqual([
    null,
    null,
    null,
  ]);
  await ends;
});
