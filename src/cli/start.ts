import { isatty } from "node:tty";
import { makeLogger } from "../adapters/pino/logger.ts";
import { ensureFirstKey, firstCurlLines } from "../app/first-steps.ts";
import { startRelay, type RunningRelay } from "../app/start-relay.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { templateFile } from "../app/template-file.ts";
import type { RelayConfig } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { summarizeConfig } from "../config/summarize-config.ts";
import { RELAY_VERSION } from "../config/version.ts";
import type { Logger } from "../domain/logger.ts";
import { printLine, type CommandIo } from "./io.ts";

/** Longer than any part's own grace; then what hangs is left behind, and the process ends within another second. */
const STOP_TIMEOUT_MS = 28_000;

/** `relay start`: runs until SIGTERM or SIGINT. */
export async function start(io: CommandIo, options: { readonly roles?: string }): Promise<number> {
  const config = loadConfig(
    options.roles === undefined ? io.env : { ...io.env, RELAY_ROLES: options.roles },
  );
  const logger = makeLogger({
    level: config.logLevel,
    pretty: io.stdout.isTTY === true && isatty(1),
    destination: io.stdout,
  });
  logger.info(
    { version: RELAY_VERSION, node: process.versions.node, ...summarizeConfig(config) },
    "relay.starting",
  );
  const relay = await startRelay({
    config,
    clock: makeSystemClock(),
    logger,
    templateFile: templateFile(),
  });
  const key = await firstKey(config, relay, logger);
  logger.info({ api: relay.apiPort, ingest: relay.ingestPort, ops: relay.opsPort }, "relay.ready");
  await printWelcome(io, config, relay, key);
  await aborted(io.signal);
  logger.info({}, "relay.stopping");
  return stop(relay, logger);
}

async function firstKey(
  config: RelayConfig,
  relay: RunningRelay,
  logger: Logger,
): Promise<string | null> {
  try {
    return await ensureFirstKey(config, relay.configStore);
  } catch (error) {
    if (config.databaseUrl === null) throw error;
    // The store is away: the relay serves what it can, the key is made sure of at the next start.
    logger.warn(
      { err: error instanceof Error ? error.message : String(error) },
      "relay.bootstrap_key_not_checked",
    );
    return null;
  }
}

async function printWelcome(
  io: CommandIo,
  config: RelayConfig,
  relay: RunningRelay,
  key: string | null,
): Promise<void> {
  const api = relay.apiPort === null ? null : `http://localhost:${relay.apiPort}`;
  if (api !== null) printLine(io.stdout, `Management API  ${api}  (documentation: ${api}/docs)`);
  if (relay.ingestPort !== null)
    printLine(io.stdout, `Ingest          ${relay.publicIngestUrl}/in/<token>`);
  printLine(
    io.stdout,
    `Operations      http://localhost:${relay.opsPort}/readyz  (also /metrics, /healthz)`,
  );
  if (key === null || api === null || relay.ingestPort === null || config.databaseUrl !== null)
    return;
  // Output is often collected as a log: a key that the operator gave is not repeated there.
  const shownKey = config.bootstrap.apiKey === null ? key : "$RELAY_BOOTSTRAP_API_KEY";
  printLine(io.stdout, `API key         ${shownKey}`);
  printLine(io.stdout);
  printLine(
    io.stdout,
    "Paste these lines: create an endpoint, send it a signed webhook, list the event:",
  );
  printLine(io.stdout);
  for (const line of await firstCurlLines({ api }, key, shownKey)) printLine(io.stdout, line);
  printLine(io.stdout);
}

/** 0 when everything ended in order; 1 when a part hung beyond the grace. */
async function stop(relay: RunningRelay, logger: Logger): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), STOP_TIMEOUT_MS);
  });
  const ended = await Promise.race([
    relay[Symbol.asyncDispose]().then(() => "ended" as const),
    late,
  ]);
  clearTimeout(timer);
  logger.info({ ended }, "relay.stopped");
  return ended === "ended" ? 0 : 1;
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(), { once: true }),
  );
}
