import { expect, test } from "vitest";
import { makePage, type PagePorts } from "../../../src/adapters/clickhouse/page.ts";
import { EventStoreError, type StoreFilter } from "../../../src/domain/event-store.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";

const NOW_MS = 1_000_000_000_000;
const HOUR_MS = 3_600_000;
const search: StoreFilter = { terms: ["word"] };
const range = { offset: 0, limit: 2 };
const row = (id: string) => ({ id, read: 2 });

interface Asked {
  readonly ofNewest: boolean;
  readonly fromMs: unknown;
  readonly maxSeconds: unknown;
  readonly signal: AbortSignal | undefined;
}

/** Makes a page whose search has its two statements answered by `newest` and `all`. */
function rig(answers: {
  readonly newest: () => Promise<object[]>;
  readonly all: (signal: AbortSignal | undefined) => Promise<object[]>;
}) {
  const asked: Asked[] = [];
  const ports: PagePorts = {
    select: async <Row>(...[, parameters, settings, signal]: Parameters<PagePorts["select"]>) => {
      const ofNewest = settings["use_skip_indexes"] === 0;
      const maxSeconds = settings["max_execution_time"];
      asked.push({ ofNewest, fromMs: parameters["from_ms"], maxSeconds, signal });
      return (await (ofNewest ? answers.newest() : answers.all(signal))) as Row[];
    },
    count: async () => 0,
    now: () => NOW_MS,
  };
  return { asked, page: makePage(ports) };
}

const never = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_, reject) =>
    signal?.addEventListener("abort", () => reject(new Error("the request was aborted"))),
  );
const ids = ({ items }: { readonly items: readonly { readonly id: string }[] }) =>
  items.map(({ id }) => id);

test("a search that the newest five minutes fill a page of is answered from them, and the other is called off", async () => {
  const { asked, page } = rig({ newest: async () => [row("b"), row("a")], all: never });
  const found = await page("org_a", search, range);
  expect(ids(found)).toEqual(["b", "a"]);
  expect(found.total).toBeNull();
  expect(asked).toMatchObject([
    { ofNewest: false, fromMs: undefined, maxSeconds: undefined },
    { ofNewest: true, fromMs: NOW_MS - 300_000, maxSeconds: 0.2 },
  ]);
  expect(asked[0]!.signal?.aborted).toBe(true);
});

test("a search whose asker has left is called off", async () => {
  const { asked, page } = rig({ newest: async () => [], all: never });
  const left = new AbortController();
  const failed = expect(page("org_a", search, range, left.signal)).rejects.toThrow("aborted");
  left.abort();
  await failed;
  expect(asked.every(({ signal }) => signal?.aborted === true)).toBe(true);
});

test("where they do not fill the page, or fail, all events are searched", async () => {
  for (const newest of [
    async () => [row("b")],
    async () => [],
    () => Promise.reject(new EventStoreError("query_limit", "too long")),
  ]) {
    // The answer from all comes later: a page must not end with the failure before it.
    const all = async (): Promise<object[]> => {
      await nextTurn();
      return [row("b"), row("a")];
    };
    const { page } = rig({ newest, all });
    expect(ids(await page("org_a", search, range))).toEqual(["b", "a"]);
  }
});

test("an answer from all events, or their failure, is not kept waiting for the newest", async () => {
  const pending = (): Promise<never> => new Promise(() => undefined);
  const { page } = rig({ newest: pending, all: async () => [row("b")] });
  expect(await page("org_a", search, range)).toMatchObject({ total: 1 });
  const failing = rig({
    newest: pending,
    all: () => Promise.reject(new EventStoreError("store_unavailable", "away")),
  });
  await expect(failing.page("org_a", search, range)).rejects.toMatchObject({
    code: "store_unavailable",
  });
});

test("of a search that ends earlier, the newest are those before its end", async () => {
  const { asked, page } = rig({ newest: async () => [row("b"), row("a")], all: never });
  const toMs = NOW_MS - 50 * HOUR_MS;
  await page("org_a", { ...search, toMs }, range);
  expect(asked[1]).toMatchObject({ ofNewest: true, fromMs: toMs - 300_000 });
});

test("only searches of more than a day, near their beginning, ask twice", async () => {
  const { asked, page } = rig({ newest: never as never, all: async () => [row("b"), row("a")] });
  await page("org_a", { terms: [] }, range);
  await page("org_a", { terms: [], token: "leaf" }, range);
  await page("org_a", { ...search, fromMs: NOW_MS - 24 * HOUR_MS }, range);
  await page("org_a", { ...search, fromMs: NOW_MS + HOUR_MS }, range);
  await page("org_a", search, { offset: 999, limit: 2 });
  expect(asked.map(({ ofNewest }) => ofNewest)).toEqual([false, false, false, false, false]);
});
