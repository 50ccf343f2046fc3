import { isatty } from "node:tty";
import { makeLogger } from "../adapters/pino/logger.ts";
import type { FirstKey } from "../app/first-key.ts";
import type { OpenConfigStore } from "../app/open-config-store.ts";
import { startRelay, type RunningRelay } from "../app/start-relay.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { templateFile } from "../app/template-file.ts";
import type { RelayConfig } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { summarizeConfig } from "../config/summarize-config.ts";
import { roleList } from "../config/value-types.ts";
import { RELAY_VERSION } from "../config/version.ts";
import { UsageError } from "../domain/errors.ts";
import type { Logger } from "../domain/logger.ts";
import { messageOf } from "../domain/thrown.ts";
import type { CommandIo } from "./io.ts";
import { checkFirstKey } from "./start/check-first-key.ts";
import { printWelcome } from "./start/welcome.ts";
import { StopLimit } from "./stop-limit.ts";

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
  void aborted(io.signal).then(() => logger.info({}, "relay.stopping"));
  using limit = new StopLimit(io.signal);
  let key: FirstKey = { kind: "none" };
  const beforeReady = async (store: OpenConfigStore): Promise<void> => {
    key = await checkFirstKey({ config, store, logger, signal: io.signal });
  };
  const relay = await startUnlessStopped({ config, logger, signal: io.signal, limit, beforeReady });
  if (relay === "ended" || relay === "late") return stopped(relay, logger);
  await using running = stopInTime(relay, limit, logger);
  tellWhenReady(relay, logger, io.signal);
  await printWelcome(io, { config, relay, key, logger });
  await aborted(io.signal);
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
