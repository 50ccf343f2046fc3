import { findProject, firstCurlLines } from "../../app/first-steps.ts";
import type { FirstKey } from "../../app/first-key.ts";
import type { RunningRelay } from "../../app/start-relay.ts";
import { isAtItsUrl } from "../../app/warn-of-settings.ts";
import type { RelayConfig } from "../../config/config.ts";
import { ROLES } from "../../config/value-types.ts";
import { INGEST_PATH } from "../../domain/ingest-path.ts";
import type { Logger } from "../../domain/logger.ts";
import { shellWord } from "../../domain/shell-word.ts";
import { baseUrlOf } from "../base-url.ts";
import { printLine, type CommandIo } from "../io.ts";

interface Welcome {
  readonly config: RelayConfig;
  readonly relay: RunningRelay;
  readonly key: FirstKey;
  readonly logger: Logger;
}

/** Prints where the relay serves and which API key to use, and for a newcomer lines to begin with. */
export async function printWelcome(io: CommandIo, welcome: Welcome): Promise<void> {
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
      `API key         the one in ${key.source} is revoked: make another with relay keys create --org ${shellWord(config.bootstrap.org)}`,
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
    logger.warn({ err: error }, "relay.first_steps_not_shown");
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
