import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeMetricsRegistry } from "../../src/adapters/prometheus/registry.ts";
import { openLog } from "../../src/app/open-log.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { TOPICS, type Log } from "../../src/domain/log.ts";
import { claimDataDir } from "../../src/embedded/data-dir.ts";
import { PlayedCluster } from "../support/played-cluster.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "relay-open-log-"));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

test("an embedded log whose directory is gone is made anew with a warning: it was made anew in silence", async () => {
  await using _claim = (await claimDataDir(dataDir)) as AsyncDisposable;
  expect(await warningsOfAStart()).toEqual([]);
  expect(await warningsOfAStart()).toEqual([]);
  await rm(join(dataDir, "log"), { recursive: true });
  expect(await warningsOfAStart()).toEqual(["log.embedded.missing"]);
  expect(await warningsOfAStart()).toEqual([]);
});

test("regression: what was taken under a larger RELAY_MAX_PAYLOAD_BYTES goes on under a smaller one: a retry was refused for good, and all behind it waited", async () => {
  await using _claim = (await claimDataDir(dataDir)) as AsyncDisposable;
  await using log = await openWith({ RELAY_MAX_PAYLOAD_BYTES: "1024" });
  const value = Buffer.alloc(105_000_000);
  await expect(log.append([{ topic: "tasks", key: "k", value }])).resolves.toHaveLength(1);
});

test("regression: payloads of the largest size that is configured are taken beside others: above 64 MiB they were refused whenever there was load", async () => {
  await using _claim = (await claimDataDir(dataDir)) as AsyncDisposable;
  await using log = await openWith({ RELAY_MAX_PAYLOAD_BYTES: "104857600" });
  const sizes = [1_000, 104_900_000, 1_000];
  const appends = sizes.map((size) =>
    log.append([{ topic: "events", key: "k", value: Buffer.alloc(size) }]),
  );
  await expect(Promise.all(appends)).resolves.toHaveLength(3);
});

test("regression: a log whose socket cannot be served is closed again: its commit thread went on", async () => {
  await using _claim = (await claimDataDir(dataDir)) as AsyncDisposable;
  await mkdir(join(dataDir, "run", "log.sock"));
  const before = commitThreads();
  await expect(openWith({})).rejects.toMatchObject({ code: "ERR_FS_EISDIR" });
  expect(commitThreads()).toBe(before);
});

test("a log that is closed takes its socket away: who came later would have found one that nobody answers", async () => {
  await using _claim = (await claimDataDir(dataDir)) as AsyncDisposable;
  const log = await openWith({});
  expect(await readdir(join(dataDir, "run"))).toContain("log.sock");
  await log[Symbol.asyncDispose]();
  expect(await readdir(join(dataDir, "run"))).not.toContain("log.sock");
});

test("a log on Kafka counts what is lost in the registry", async () => {
  await using cluster = await PlayedCluster.start(
    1,
    TOPICS.map((topic) => `relay.${topic}`),
  );
  const { registry } = makeMetricsRegistry();
  await using _log = await openWith(
    {
      KAFKA_BROKERS: cluster.addresses.join(","),
      RELAY_PARTITIONS: "1",
      RELAY_TOPIC_PREFIX: "relay.",
    },
    undefined,
    registry,
  );
  expect(await registry.metrics()).toContain('relay_log_records_lost_total{topic="events"} 0\n');
});

/** Counts commit threads by their message ports, which keep this process from ending. */
function commitThreads(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "MessagePort").length;
}

async function warningsOfAStart(): Promise<string[]> {
  const warnings: string[] = [];
  await using _log = await openWith({}, (level, message) => {
    if (level === "warn") warnings.push(message);
  });
  return warnings;
}

function openWith(
  environment: Readonly<Record<string, string>>,
  onLine: Parameters<typeof makeSilentLogger>[0] = () => {},
  registry = makeMetricsRegistry().registry,
): Promise<Log> {
  return openLog({
    config: loadConfig({ RELAY_DATA_DIR: dataDir, ...environment }),
    dataDirMode: "serve",
    clock: makeSystemClock(),
    logger: makeSilentLogger(onLine),
    registry,
  });
}
