import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeMetricsRegistry } from "../../src/adapters/prometheus/registry.ts";
import { openLog } from "../../src/app/open-log.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { claimDataDir } from "../../src/embedded/data-dir.ts";
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

async function warningsOfAStart(): Promise<string[]> {
  const warnings: string[] = [];
  await using _log = await openLog({
    config: loadConfig({ RELAY_DATA_DIR: dataDir }),
    dataDirMode: "serve",
    clock: makeSystemClock(),
    logger: makeSilentLogger((level, message) => {
      if (level === "warn") warnings.push(message);
    }),
    registry: makeMetricsRegistry().registry,
  });
  return warnings;
}
