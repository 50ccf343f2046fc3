import type { ClickHouseClient, QueryParams } from "@clickhouse/client";
import { expect, test, vi } from "vitest";
import type { Ask } from "../../../src/adapters/clickhouse/ask.ts";
import { longOutcomesStatement } from "../../../src/adapters/clickhouse/query-sql.ts";
import { makeEventStoreReader } from "../../../src/adapters/clickhouse/queries.ts";
import { withReadDeadline } from "../../../src/adapters/clickhouse/read-deadline.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("what listened for the end of a read goes with the read: each answer that was read stayed in memory", async () => {
  const request = new AbortController();
  const answers: WeakRef<object>[] = [];
  const read = async (signal: AbortSignal): Promise<void> => {
    const answer = { rows: Array.from({ length: 100 }) };
    signal.addEventListener("abort", () => answer.rows.pop());
    answers.push(new WeakRef(answer));
  };
  for (let count = 0; count < 100; count += 1) await withReadDeadline(10, request.signal, read);
  await turn();
  collectGarbage();
  const kept = answers.filter((answer) => answer.deref() !== undefined);
  expect(kept.length).toBeLessThan(10);
});

test("a read is ended by its request's signal with its reason, also one that was over before", async () => {
  const request = new AbortController();
  const untilEnded = (signal: AbortSignal): Promise<never> =>
    new Promise((_resolve, reject) => {
      if (signal.aborted) reject(signal.reason as Error);
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
  const read = withReadDeadline(10, request.signal, untilEnded);
  request.abort(new Error("nobody waits"));
  await expect(read).rejects.toThrow("nobody waits");
  await expect(withReadDeadline(10, request.signal, untilEnded)).rejects.toThrow("nobody waits");
});

test("regression: a read whose turn comes with little time left is refused: it was begun and cut, and slowed those that could have ended", async () => {
  vi.useFakeTimers();
  try {
    const asked: string[] = [];
    const readAfter = (waitMs: number): Promise<void> =>
      withReadDeadline(8, undefined, async (_signal, began) => {
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        began();
        asked.push(`after ${waitMs} ms`);
      });
    const reads = Promise.allSettled([readAfter(7_900), readAfter(8_100)]);
    await vi.advanceTimersByTimeAsync(8_100);
    expect(await reads).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: { code: "store_busy" } },
    ]);
    expect(asked).toEqual(["after 7900 ms"]);
  } finally {
    vi.useRealTimers();
  }
});

test("every statement is limited in the server as well, gives no part of an answer, writes nothing, and names its organization", async () => {
  const asked: { readonly query: string; readonly settings: Readonly<Record<string, unknown>> }[] =
    [];
  const client = {
    query: async ({ query, clickhouse_settings: settings = {} }: QueryParams) => {
      asked.push({ query, settings });
      return { json: async () => [], close: () => undefined };
    },
  } as unknown as ClickHouseClient;
  const lookUp: Ask = async (query, _parameters, settings) => {
    asked.push({ query, settings });
    return query.includes("upgradedMs") ? ([{ newestMs: 1, upgradedMs: 0 }] as never[]) : [];
  };
  const limits = { maxSeconds: 7, maxMemoryBytes: 123 };
  const reader = makeEventStoreReader(client, limits, undefined, lookUp);
  const key = { id: "evt_1", receivedAtMs: 1 };
  const filters = [
    { terms: [] },
    { terms: ["word"], attemptStatus: "dead", token: "leaf" },
  ] as const;
  for (const filter of filters) {
    await reader.page("org_a", filter, { offset: 0, limit: 10 });
    await reader.page("org_a", filter, { offset: 100_000, limit: 10 });
    await reader.count("org_a", filter);
    await reader.facets("org_a", filter);
  }
  await reader.event("org_a", key);
  await reader.outcomes("org_a", key);
  for (const ask of [reader.smallEvents, reader.existing, reader.fannedOut, reader.summaries])
    await ask("org_a", [key]);
  const isOfServer = (query: string): boolean => /system\.parts|upgradedMs/.test(query);
  for (const { settings } of asked) {
    expect(settings).toMatchObject({
      readonly: "2",
      max_memory_usage: 123,
      result_overflow_mode: "throw",
      timeout_overflow_mode: "throw",
      distributed_product_mode: "local",
      cancel_http_readonly_queries_on_client_close: 1,
    });
    expect([7, 0.2]).toContain(settings["max_execution_time"]);
  }
  const queries = asked.map(({ query }) => query).filter((query) => !isOfServer(query));
  expect(queries.length).toBeGreaterThan(15);
  for (const query of [...queries, longOutcomesStatement(true)]) {
    const tables = query.match(/\b(?:FROM|IN) (?:events|attempts|fanouts)\b/g) ?? [];
    const organizations = query.match(/\borg_id = \{org_id:String\}/g) ?? [];
    expect([query, organizations.length]).toEqual([query, tables.length]);
  }
});
