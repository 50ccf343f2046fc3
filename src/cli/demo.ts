import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeLogger } from "../adapters/pino/logger.ts";
import { ensureFirstKey } from "../app/first-key.ts";
import { startRelay } from "../app/start-relay.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { templateFile } from "../app/template-file.ts";
import { makeClient } from "../client/client.ts";
import { loadConfig } from "../config/load-config.ts";
import { systemReason, UsageError } from "../domain/errors.ts";
import { startDemoReceiver } from "./demo/receiver.ts";
import { findDifferences, printReport } from "./demo/report.ts";
import { runScenario } from "./demo/scenario.ts";
import { printLine, type CommandIo } from "./io.ts";

/**
 * `relay demo`: runs a whole relay in a temporary directory once. Returns 0 when everything came out as it must.
 * @throws {UsageError} when no temporary directory can be made
 */
export async function demo(io: CommandIo): Promise<number> {
  const dataDir = await makeTemporaryDirectory();
  try {
    return await runIn(dataDir, io);
  } catch (error) {
    if (!io.signal.aborted) throw error;
    printLine(io.stderr, "relay: the demo was interrupted");
    return 1;
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function makeTemporaryDirectory(): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), "relay-demo-"));
  } catch (cause) {
    throw new UsageError(
      `no directory can be made in ${tmpdir()} (${systemReason(cause)}): set TMPDIR to one that this user may write`,
      { cause },
    );
  }
}

async function runIn(dataDir: string, io: CommandIo): Promise<number> {
  const config = loadConfig({
    LOG_LEVEL: io.env["LOG_LEVEL"] ?? "error",
    RELAY_DATA_DIR: dataDir,
    RELAY_API_PORT: "0",
    RELAY_INGEST_PORT: "0",
    RELAY_OPS_PORT: "0",
    RELAY_API_HOST: "127.0.0.1",
    RELAY_INGEST_HOST: "127.0.0.1",
    RELAY_PARTITIONS: "4",
    RELAY_ALLOW_PRIVATE_RECEIVERS: "127.0.0.0/8",
    RELAY_RETRY_BASE_MS: "250",
  });
  const logger = makeLogger({ level: config.logLevel, pretty: false, destination: io.stderr });
  printLine(io.stdout, "Starting a relay with embedded stores in a temporary directory …");
  await using receiver = await startDemoReceiver();
  await using relay = await startRelay({
    config,
    clock: makeSystemClock(),
    logger,
    templateFile: templateFile(),
    signal: io.signal,
  });
  const firstKey = await ensureFirstKey(config, relay.configStore);
  const apiKey = firstKey.kind === "usable" ? firstKey.key : "";
  const client = makeClient({ baseUrl: `http://127.0.0.1:${relay.apiPort}`, apiKey });
  const result = await runScenario(client, receiver, io.signal);
  printReport(result, io.stdout);
  const differences = findDifferences(result);
  for (const difference of differences) printLine(io.stdout, `NOT AS EXPECTED: ${difference}`);
  printLine(
    io.stdout,
    differences.length === 0 ? "Everything came out as it must." : "The demo failed.",
  );
  return differences.length === 0 ? 0 : 1;
}
