import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectClickHouse } from "../../../src/adapters/clickhouse/connect.ts";
import { makeEventStoreWriter } from "../../../src/adapters/clickhouse/insert.ts";
import { migrateClickHouse } from "../../../src/adapters/clickhouse/migrate.ts";
import { makeEventStoreReader } from "../../../src/adapters/clickhouse/queries.ts";
import { readCredentials } from "../../../src/embedded/chdb/credentials-file.ts";
import { engineMemoryBytes } from "../../../src/embedded/chdb/engine-memory.ts";
import { startEmbeddedClickHouse } from "../../../src/embedded/chdb/start-embedded-clickhouse.ts";
import { startTime } from "../../../src/embedded/data-dir-process.ts";
import { encodeEvent } from "../../../src/pipeline/log/event-codec.ts";
import { makeRecorder } from "../../../src/pipeline/record/make-recorder.ts";
import { makeEvent } from "../../support/clickhouse-events.ts";
import { MemoryLog } from "../../support/clickhouse-log.ts";
import { realClock } from "../../support/clickhouse.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { until, waitFor } from "../../support/wait-for.ts";

const logger = makeSilentLogger();
let dataDir = "";
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "relay-chdb-"));
});
afterEach(async () => {
  await rm(dataDir, { recursive: true, force: true });
});

/** Tells whether a process is alive; one that has ended but was not reaped yet is not. */
const isAlive = async (pid: number): Promise<boolean> => {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return !/\) Z /.test(await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""));
};

async function rowsOf<T>(url: string, query: string, settings = {}): Promise<T[]> {
  const client = connectClickHouse(url);
  try {
    const answer = await client.query({
      query,
      format: "JSONEachRow",
      clickhouse_settings: settings,
    });
    return await answer.json<T>();
  } finally {
    await client.close();
  }
}

test.runIf(process.platform === "linux")(
  "regression: where memory runs out, the system ends the engine first, which is started again: it ended the relay, the larger of the two",
  async () => {
    await using running = await startEmbeddedClickHouse({ dataDir, logger });
    const scoreOf = async (pid: number): Promise<number> =>
      Number(await readFile(`/proc/${pid}/oom_score_adj`, "utf8"));
    expect(await scoreOf(running.pid)).toBe(Math.min(1_000, (await scoreOf(process.pid)) + 500));
  },
);

test("regression: the engine's process id has a name of its own in the log: a terminal left it out as the relay's", async () => {
  const told: object[] = [];
  const telling = makeSilentLogger((_, message, fields) => told.push({ message, ...fields }));
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger: telling });
  const { pid: enginePid } = embedded;
  expect(told).toMatchObject([{ message: "clickhouse.embedded.started", enginePid }]);
});

test("tells as an error that its child ended by itself, but not that it was stopped", async () => {
  const errors: string[] = [];
  const telling = makeSilentLogger((level, message) => {
    if (level === "error") errors.push(message);
  });
  await (await startEmbeddedClickHouse({ dataDir, logger: telling }))[Symbol.asyncDispose]();
  expect(errors).toEqual([]);
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger: telling });
  process.kill(embedded.pid, "SIGKILL");
  expect(await embedded.closed).toMatchObject({ expected: false, signal: "SIGKILL" });
  expect(errors).toEqual(["clickhouse.embedded.ended"]);
});

test("its child outlives the signals that a service gets as a whole: what is still under way has to be recorded", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.kill(embedded.pid, signal);
    await sleep(200);
    expect(await rowsOf(embedded.url, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
  }
});

test("starts, keeps its data over a restart, and publishes its address for the owner only", async () => {
  {
    await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
    const path = join(dataDir, "run", "clickhouse.json");
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(path, "utf8"))).toEqual({
      url: embedded.url,
      pid: embedded.pid,
      startedAt: startTime(embedded.pid),
    });
    const client = connectClickHouse(embedded.url);
    await client.command({ query: "CREATE TABLE kept (n UInt8) ENGINE = MergeTree ORDER BY n" });
    await client.insert({ table: "kept", values: [{ n: 7 }], format: "JSONEachRow" });
    await client.close();
  }
  await using again = await startEmbeddedClickHouse({ dataDir, logger });
  expect(await rowsOf(again.url, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
});

test("its engine keeps to its share of the memory", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  const limit = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'";
  expect(await rowsOf(embedded.url, limit)).toEqual([{ value: String(engineMemoryBytes()) }]);
});

test("tells its child's number before that opens the store: an owner that came after one that was killed would open it, too", async () => {
  const starting = startEmbeddedClickHouse({ dataDir, logger });
  const first = await waitFor("a number", () => readCredentials(dataDir));
  await using embedded = await starting;
  expect(first).toMatchObject({ url: "", pid: embedded.pid, startedAt: startTime(embedded.pid) });
  expect(await readCredentials(dataDir)).toEqual({ ...first, url: embedded.url });
});

test("speaks what the driver needs: parameters, settings for one query only, errors, time limits", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  const client = connectClickHouse(embedded.url);
  const odd = "tab\t line\n quote' back\\slash {x:String} \0 é";
  const answer = await client.query({
    query:
      "SELECT {odd:String} AS odd, {list:Array(String)} AS list, getSetting('max_threads') AS threads",
    query_params: { odd, list: ["it's", "a\\b", odd] },
    clickhouse_settings: { max_threads: 1 },
    format: "JSONEachRow",
  });
  expect(await answer.json()).toEqual([{ odd, list: ["it's", "a\\b", odd], threads: 1 }]);
  const many = await Promise.all(
    Array.from({ length: 30 }, async (_, n) => {
      const rows = await client.query({
        query: "SELECT {n:UInt32} AS n, sleep(0.01)",
        query_params: { n },
        format: "JSONEachRow",
      });
      return (await rows.json<{ n: number }>())[0]?.n;
    }),
  );
  expect(many).toEqual(Array.from({ length: 30 }, (_, n) => n));
  // Together, so that they use all sessions.
  const threads = await Promise.all(
    Array.from({ length: 6 }, () =>
      rowsOf<{ threads: number }>(
        embedded.url,
        "SELECT getSetting('max_threads') AS threads, sleep(0.3)",
      ),
    ),
  );
  expect(threads.flat().filter((row) => row.threads === 1)).toEqual([]);
  await expect(client.query({ query: "SELECT nope" })).rejects.toMatchObject({ code: "47" });
  await expect(
    rowsOf(embedded.url, "CREATE TABLE t (n UInt8) ENGINE = Memory", { readonly: "1" }),
  ).rejects.toMatchObject({ code: "164" });
  await expect(
    client.exec({ query: "INSERT INTO t FORMAT RowBinary", values: streamOf("x") }),
  ).rejects.toMatchObject({ code: "73" });
  await expect(rowsOf(embedded.url, "SELECT 1", { no_such_setting: "1" })).rejects.toMatchObject({
    code: "115",
  });
  await expect(rowsOf(embedded.url.replace("relay:", "relay:x"), "SELECT 1")).rejects.toMatchObject(
    {
      code: "516",
    },
  );
  expect((await client.ping()).success).toBe(true);
  await client.close();
});

test("regression: a SET or USE that somebody sends stays with nobody: the relay recorded nothing until it was restarted", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  await using client = connectClickHouse(embedded.url);
  await client.command({ query: "CREATE TABLE t (set UInt8) ENGINE = Memory" });
  for (const query of [
    "USE default",
    "SET insert_null_as_default = 0",
    "-- why\n/* what; */ use default",
    "SELECT 1; SET readonly = 1",
  ])
    for (let session = 0; session < 6; session += 1)
      await expect(client.command({ query }), query).rejects.toMatchObject({ code: "344" });
  await client.command({ query: "ALTER TABLE t UPDATE set = 1 WHERE set = 0" });
  for (let session = 0; session < 6; session += 1)
    await client.insert({ table: "t", values: [{ set: 1 }], format: "JSONEachRow" });
  expect(await rowsOf(embedded.url, "SELECT count()::UInt8 AS n FROM t")).toEqual([{ n: 6 }]);
});

test("takes parameters as long as ClickHouse does: the names of three hundred parts of a large store were too long", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  const client = connectClickHouse(embedded.url);
  const names = Array.from(
    { length: 300 },
    (_, day) => `${20_260_101 + day}_${"1234567890_".repeat(3)}`,
  );
  const endpoint = "\u{1f642}".repeat(256);
  const answer = await client.query({
    query:
      "SELECT length({names:Array(String)}) AS names, lengthUTF8({endpoint:String}) AS endpoint",
    query_params: { names, endpoint },
    format: "JSONEachRow",
  });
  expect(await answer.json()).toEqual([{ names: 300, endpoint: 256 }]);
  await client.close();
});

test("ends reads whose clients have hung up, whenever that was", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  const client = connectClickHouse(embedded.url);
  const running = async (): Promise<number> => {
    const [row] = await rowsOf<{ n: number }>(
      embedded.url,
      "SELECT count() AS n FROM system.processes WHERE query LIKE '%numbers(10000%' AND query NOT LIKE '%processes%'",
    );
    return row!.n;
  };
  const readUntil = async (hungUp: (abort: AbortController) => Promise<void>): Promise<void> => {
    const abort = new AbortController();
    // It would take hours.
    const answer = client
      .query({
        query: "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1",
        abort_signal: abort.signal,
      })
      .then(
        () => "answered",
        () => "hung up",
      );
    await hungUp(abort);
    expect(await answer).toBe("hung up");
    await until(async () => (await running()) === 0);
  };
  await readUntil(async (abort) => {
    await until(async () => (await running()) === 1);
    abort.abort();
  });
  // At some of these moments the engine forgets a cancellation.
  for (let afterMs = 0; afterMs < 20; afterMs += 1)
    await readUntil(async (abort) => {
      await sleep(afterMs);
      abort.abort();
    });
  await client.close();
});

test("a read that failed is not kept by the engine until its session is used again", async () => {
  await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
  const failing = "SELECT throwIf(number = 10) FROM numbers(100)";
  for (let round = 0; round < 20; round += 1) {
    // Together, so that they use all sessions: the query below uses only one of them.
    const answers = await Promise.allSettled(
      Array.from({ length: 6 }, () => rowsOf(embedded.url, failing)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill("rejected"));
    const kept = await rowsOf(
      embedded.url,
      "SELECT query FROM system.processes WHERE query LIKE '%throwIf%' AND query NOT LIKE '%processes%'",
    );
    expect(kept).toEqual([]);
  }
});

test("when its owner is killed the child goes too, and the next owner starts", async () => {
  const file = fileURLToPath(new URL("./owner-process.ts", import.meta.url));
  const owner = fork(file, [dataDir], { execArgv: ["--import", "tsx"] });
  const [{ pid }] = (await once(owner, "message")) as [{ url: string; pid: number }];
  expect(await isAlive(pid)).toBe(true);
  owner.kill("SIGKILL");
  await using next = await startEmbeddedClickHouse({ dataDir, logger });
  expect(await isAlive(pid)).toBe(false);
  expect(await rowsOf(next.url, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test("a child that is started again comes back to its port or not at all: its clients know no other", async () => {
  const first = await startEmbeddedClickHouse({ dataDir, logger });
  const previousUrl = first.url;
  await first[Symbol.asyncDispose]();
  expect(await first.closed).toMatchObject({ expected: true });
  const other = createServer();
  await new Promise<void>((listening) =>
    other.listen(Number(new URL(previousUrl).port), "127.0.0.1", listening),
  );
  await expect(startEmbeddedClickHouse({ dataDir, logger, previousUrl })).rejects.toThrow(
    "EADDRINUSE",
  );
  await new Promise((closed) => other.close(closed));
  await using again = await startEmbeddedClickHouse({ dataDir, logger, previousUrl });
  expect(again.url).toBe(previousUrl);
});

test("a child that cannot be made is an error to try again after: it ended the whole process, or was waited for without end", async () => {
  const { execPath } = process;
  process.execPath = join(dataDir, "no-such-program");
  const starting = startEmbeddedClickHouse({ dataDir, logger });
  await expect(starting.finally(() => (process.execPath = execPath))).rejects.toThrow(
    /does not start: its process cannot be made .*ENOENT/,
  );
  await using next = await startEmbeddedClickHouse({ dataDir, logger });
  expect(await rowsOf(next.url, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test(
  "killed again and again during inserts, nothing is lost or doubled once it is back",
  { timeout: 120_000 },
  async () => {
    const log = new MemoryLog(4);
    let embedded = await startEmbeddedClickHouse({ dataDir, logger });
    const client = connectClickHouse(embedded.url);
    await migrateClickHouse(client, { retentionDays: 3_000 });
    let inserts = 0;
    const metrics = {
      recorded: () => (inserts += 1),
      failed: () => undefined,
      skipped: () => undefined,
    };
    const store = makeEventStoreWriter(client);
    const failed = (error: Error): void => expect.fail(error.message);
    const recorder = makeRecorder({ failed, log, store, clock: realClock, logger, metrics });
    await recorder.start();
    let seed = 0;
    for (let kill = 0; kill < 4; kill += 1) {
      const before = inserts;
      for (let n = 0; n < 600; n += 1) {
        const event = makeEvent(seed, { endpointId: `ep_${seed % 5}` });
        log.append("events", event.endpointId, encodeEvent(event));
        seed += 1;
      }
      // Kill at a different moment of the insert each time; the last batch may be anywhere.
      if (kill > 0) await new Promise((resolve) => setTimeout(resolve, 90 + kill * 25));
      else await until(() => inserts > before);
      process.kill(embedded.pid, "SIGKILL");
      expect(await embedded.closed).toMatchObject({ expected: false, signal: "SIGKILL" });
      const url = embedded.url;
      embedded = await startEmbeddedClickHouse({ dataDir, logger, previousUrl: url });
      expect(embedded.url).toBe(url);
    }
    await until(() => log.committedOffset("events") === seed, "all is recorded", 60_000);
    const reader = makeEventStoreReader(client);
    expect(await reader.count("org_a", { terms: [] })).toBe(seed);
    const stored = await rowsOf(
      embedded.url,
      "SELECT count() AS rows, uniqExact(id) AS ids FROM events",
    );
    expect(stored).toEqual([{ rows: seed, ids: seed }]);
    await recorder[Symbol.asyncDispose]();
    await client.close();
    await embedded[Symbol.asyncDispose]();
  },
);

function streamOf(text: string): Readable {
  return Readable.from([Buffer.from(text)], { objectMode: false });
}
