import { expect, test } from "vitest";
import type { Engine } from "../../../src/embedded/chdb/engine.ts";
import { makeStatementRunner } from "../../../src/embedded/chdb/run-statement.ts";
import { SessionPool } from "../../../src/embedded/chdb/session-pool.ts";

/** Makes a runner on one session, which keeps the settings that it is told unless `refuses` says otherwise, as an engine does. */
function makeRunner(refuses: (sql: string) => boolean = () => false) {
  const settings = new Map<string, string>();
  const seen: Record<string, string>[] = [];
  const engine = {
    async query(_session: unknown, sql: string) {
      if (refuses(sql)) throw new Error("refused");
      if (sql.startsWith("SET ")) {
        for (const [, name, value] of sql.matchAll(/(\w+) = (\w+|'\w+')/g))
          if (value === "DEFAULT") settings.delete(name!);
          else settings.set(name!, value!.replaceAll("'", ""));
      } else if (sql.includes("ask")) seen.push(Object.fromEntries(settings));
      return { bytes: () => new Uint8Array(0), rowsRead: 0, bytesRead: 0 };
    },
  } as unknown as Engine;
  const pool = new SessionPool([{} as never]);
  const runner = makeStatementRunner(engine, { read: pool, write: pool, control: pool });
  const run = (given: Readonly<Record<string, string>>) =>
    runner.run({
      sql: "ask",
      data: null,
      parameters: new Map(),
      queryId: "",
      reads: true,
      database: "default",
      settings: new Map(Object.entries(given)),
    });
  return { run, seen };
}

test("each statement has its own settings and none of those before it", async () => {
  const { run, seen } = makeRunner();
  const all = [{ a: "1" }, { a: "1", b: "2" }, { b: "3" }, {}, { a: "1" }];
  for (const settings of all) await run(settings);
  expect(seen).toEqual(all);
});

test.each(["DEFAULT", "'3'"])(
  "regression: after a SET to %s was refused, the next statement has its settings: one that the session still had, or no longer had, was taken for what it was before",
  async (refused) => {
    let isRefused = false;
    const { run, seen } = makeRunner((sql) => isRefused && sql.includes(refused));
    await run({ a: "1", b: "2" });
    isRefused = true;
    await expect(run({ b: "3" })).rejects.toThrow("refused");
    isRefused = false;
    await run({ b: "2" });
    await run({ a: "1" });
    expect(seen).toEqual([{ a: "1", b: "2" }, { b: "2" }, { a: "1" }]);
  },
);
