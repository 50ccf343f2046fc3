import { setTimeout as delay } from "node:timers/promises";
import { explainStoreError, namePostgres } from "../../app/explain-store-error.ts";
import { ensureFirstKey, type FirstKey } from "../../app/first-key.ts";
import type { OpenConfigStore } from "../../app/open-config-store.ts";
import type { RelayConfig } from "../../config/config.ts";
import { UsageError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";

const KEY_RETRY_MS = 2_000;

interface KeyCheck {
  readonly config: RelayConfig;
  readonly store: OpenConfigStore;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Makes sure that there is a first key. Where the store is given by URL and is down, the relay starts without, and a
 * configured key is made sure of once the store is back.
 * @throws {UsageError} for a key that cannot be used
 */
export async function checkFirstKey(check: KeyCheck): Promise<FirstKey> {
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
