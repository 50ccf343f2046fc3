import { setTimeout as delay } from "node:timers/promises";
import { isatty } from "node:tty";
import { makeLogger } from "../adapters/pino/logger.ts";
import { explainStoreError, namePostgres } from "../app/explain-store-error.ts";
import { ensureFirstKey, findProject, firstCurlLines, type FirstKey } from "../app/first-steps.ts";
import type { OpenConfigStore } from "../app/open-config-store.ts";
import { startRelay, type RunningRelay } from "../app/start-relay.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { templateFile } from "../app/template-file.ts";
import { isAtItsUrl } from "../app/warn-of-settings.ts";
import type { RelayConfig } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { roleList, ROLES } from "../config/value-types.ts";
import { summarizeConfig } from "../config/summarize-config.ts";
import { RELAY_VERSION } from "../config/version.ts";
import { UsageError } from "../domain/errors.ts";
import type { Logger } from "../domain/logger.ts";
import { baseUrlOf } from "./base-url.ts";
import { printLine, type CommandIo } from "./io.ts";
import { StopLimit } from "./stop-limit.ts";
import { messageOf } from "../domain/thrown.ts";
import { INGEST_PATH } from "../domain/ingest-path.ts";

const KEY_RETRY_MS = 2_000;

/** `relay start`: runs until SIGTERM or SIGINT. */
export async function start(io: CommandIo, options: { readonly roles?: string }): Promise<number> {
  const config = loadConfig(
    options.roles === undefined
      ? io.env
      : { ...io.env, RELAY_ROLES: refuseWrongRoles(options.roles) },
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
  using limit = new StopLimit(io.signal);
  let key: FirstKey = { kind: "none" };
  const beforeReady = async (store: OpenConfigStore): Promise<void> => {
    key = await firstKey({ config, store, logger, signal: io.signal });
  };
  const relay = await startUnlessStopped({ config, logger, signal: io.signal, limit, beforeReady });
  if (relay === "ended" || relay === "late") return stopped(relay, logger);
  await using running = stopInTime(relay, limit, logger);
  tellWhenReady(relay, logger, io.signal);
  await printWelcome(io, { config, relay, key, logger });
  await aborted(io.signal);
  logger.info({}, "relay.stopping");
  return running.stop();
}

/**
 * Checks the option itself: an empty variable counts as unset, but a given option has a value, and errors must name the option.
 */
function refuseWrongRoles(list: string): string {
  const { error } = roleList.safeParse(list);
  if (error !== undefined)
    throw new UsageError(`--roles ${error.issues[0]?.message ?? "is wrong"}`);
  return list;
}

/**
 * Starts the relay. Returns `ended` when told to stop meanwhile (what was begun is stopped again), and `late` when a
 * step of the start hung until the limit.
 */
async function startUnlessStopped(options: {
  readonly config: RelayConfig;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly limit: StopLimit;
  readonly beforeReady: (store: OpenConfigStore) => Promise<void>;
}): Promise<RunningRelay | "ended" | "late"> {
  const { config, logger, signal, limit, beforeReady } = options;
  try {
    return await limit.race(
      startRelay({
        config,
        clock: makeSystemClock(),
        logger,
        templateFile: templateFile(),
        beforeReady,
        signal,
      }),
    );
  } catch (error) {
    if (!signal.aborted) throw error;
    // Whoever told it to stop may have told its embedded store, too, so a store that did not come up is no failure.
    if (error !== signal.reason) logger.warn({ err: messageOf(error) }, "relay.start_broken_off");
    return "ended";
  }
}

/** Logs that the relay is ready once `/readyz` says so, and until then what it waits for. */
function tellWhenReady(relay: RunningRelay, logger: Logger, signal: AbortSignal): void {
  const ports = { api: relay.apiPort, ingest: relay.ingestPort, ops: relay.opsPort };
  const waitsFor = relay
    .parts()
    .filter(({ state }) => state !== "running")
    .map(({ name, lastError }) => ({ part: name, err: lastError }));
  if (waitsFor.length === 0) return logger.info(ports, "relay.ready");
  logger.warn({ ...ports, waitsFor }, "relay.waiting");
  void relay.allRunning().then(() => {
    if (!signal.aborted) logger.info(ports, "relay.ready");
  });
}

interface KeyCheck {
  readonly config: RelayConfig;
  readonly store: OpenConfigStore;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

async function firstKey(check: KeyCheck): Promise<FirstKey> {
  const { config, store, logger } = check;
  try {
    return await ensureFirstKey(config, store);
  } catch (error) {
    if (config.databaseUrl === null || error instanceof UsageError) throw error;
    // The store is down: the relay serves what it can.
    const { message } = explainStoreError(namePostgres(config), error);
    logger.warn({ err: message, retryInMs: KEY_RETRY_MS }, "relay.bootstrap_key_not_checked");
    if (config.bootstrap.apiKey !== null) void keepMakingSure(check);
    return { kind: "none" };
  }
}

/** Retries until the configured key is there or is refused, or the relay stops. */
async function keepMakingSure({ config, store, logger, signal }: KeyCheck): Promise<void> {
  while (!signal.aborted)
    try {
      await delay(KEY_RETRY_MS, undefined, { signal });
      const { kind } = await ensureFirstKey(config, store);
      logger.info({ key: kind }, "relay.bootstrap_key_checked");
      return;
    } catch (error) {
      if (signal.aborted || !(error instanceof UsageError)) continue;
      logger.error({ err: error }, "relay.bootstrap_key_refused");
      return;
    }
}

interface Welcome {
  readonly config: RelayConfig;
  readonly relay: RunningRelay;
  readonly key: FirstKey;
  readonly logger: Logger;
}

async function printWelcome(io: CommandIo, welcome: Welcome): Promise<void> {
  const { config, relay, key } = welcome;
  const api = relay.apiPort === null ? null : baseUrlOf(config.api.host, relay.apiPort);
  const ownKey = key.kind === "usable" && config.databaseUrl === null ? key.key : null;
  // Done first, since it asks the API, which logs that: the lines for people then stay together.
  const steps = api === null || ownKey === null ? [] : await firstStepsOf(welcome, api, ownKey);
  if (api !== null) printLine(io.stdout, `Management API  ${api}  (documentation: ${api}/docs)`);
  if (relay.ingestPort !== null)
    printLine(io.stdout, `Ingest          ${relay.publicIngestUrl}${INGEST_PATH}<token>`);
  const ops = baseUrlOf(config.ops.host, relay.opsPort);
  printLine(io.stdout, `Operations      ${ops}/readyz  (also /metrics, /healthz)`);
  if (key.kind === "revoked")
    printLine(
      io.stdout,
      `API key         the one in ${key.source} is revoked: make another with relay keys create --org ${config.bootstrap.org}`,
    );
  if (api === null || ownKey === null) return;
  // Output is often collected as a log, so a key that the operator gave is not repeated there.
  const isGiven = config.bootstrap.apiKey !== null;
  printLine(io.stdout, `API key         ${isGiven ? "RELAY_BOOTSTRAP_API_KEY, as set" : ownKey}`);
  if (steps.length > 0) printFirstSteps(io, steps);
}

/** Returns lines for a shell, or none where they would not work. */
async function firstStepsOf(
  { config, logger }: Welcome,
  api: string,
  key: string,
): Promise<readonly string[]> {
  // The last line lists what the delivery role has recorded.
  if (!ROLES.every((role) => config.roles.includes(role)) || !isAtItsUrl(config)) return [];
  const shownKey =
    config.bootstrap.apiKey === null
      ? key
      : "${RELAY_BOOTSTRAP_API_KEY:?set it in this shell, too}";
  try {
    return firstCurlLines(api, await findProject(api, key), shownKey);
  } catch (error) {
    // They only help a newcomer: the relay serves without them.
    logger.warn({ err: messageOf(error) }, "relay.first_steps_not_shown");
    return [];
  }
}

function printFirstSteps(io: CommandIo, lines: readonly string[]): void {
  printLine(io.stdout);
  printLine(
    io.stdout,
    "Paste these lines: create an endpoint, send it a signed webhook, list the event:",
  );
  printLine(io.stdout);
  for (const line of lines) printLine(io.stdout, line);
  printLine(io.stdout);
}

interface BoundedStop extends AsyncDisposable {
  /** Returns 0 when everything ended in order, 1 when a part hung beyond the grace. */
  readonly stop: () => Promise<number>;
}

function stopInTime(relay: RunningRelay, limit: StopLimit, logger: Logger): BoundedStop {
  let stopping: Promise<number> | null = null;
  const stop = (): Promise<number> => (stopping ??= stopOnce(relay, limit, logger));
  return { stop, [Symbol.asyncDispose]: async () => void (await stop()) };
}

async function stopOnce(relay: RunningRelay, limit: StopLimit, logger: Logger): Promise<number> {
  limit.begin();
  const ended = await limit.race(relay[Symbol.asyncDispose]().then(() => "ended" as const));
  return stopped(ended, logger, relay.stopping());
}

/** @param waitsFor the part that was late */
function stopped(ended: "ended" | "late", logger: Logger, waitsFor: string | null = null): number {
  if (waitsFor === null) logger.info({ ended }, "relay.stopped");
  else logger.warn({ ended, part: waitsFor }, "relay.stopped");
  return ended === "ended" ? 0 : 1;
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(), { once: true }),
  );
}
