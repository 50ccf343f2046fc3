import { randomBytes } from "node:crypto";
import { makeSealedRows } from "../adapters/postgres/sealed-rows.ts";
import { ensureSetting } from "../adapters/postgres/settings.ts";
import { pause } from "../domain/clock.ts";
import type { Clock } from "../domain/clock.ts";
import { RelayError } from "../domain/errors.ts";
import type { ConfigCache } from "../management/config-cache.ts";
import { makeIngestTokens, type IngestTokens } from "../management/ingest-token.ts";
import type { SecretBox } from "../management/secret-box.ts";
import { makeKeyMark, refuseOtherKey } from "./encryption-key.ts";
import type { OpenConfigStore } from "./open-config-store.ts";
import type { Part } from "./supervisor.ts";

const TOKEN_KEY_SETTING = "ingest_token_key";

/**
 * Makes ingest tokens whose key is yet to be read from PostgreSQL: until then every token may be ours, and none can be made.
 */
export function makeLateTokens(): IngestTokens & { load(key: Uint8Array): void } {
  let tokens: IngestTokens | null = null;
  return {
    load(key) {
      tokens = makeIngestTokens(key, randomBytes);
    },
    mint() {
      if (tokens === null)
        throw new RelayError(
          "unavailable",
          "The configuration store cannot be reached; try again.",
        );
      return tokens.mint();
    },
    isOurs: (token) => tokens?.isOurs(token) ?? true,
  };
}

/** Pause after the store went down while being read, or after another gap: reading again at once would keep a core busy. */
const READ_AGAIN_MS = 5_000;

/**
 * Returns what to do when changes may have been missed, as at the start: it fills the cache once, and afterwards
 * reloads what the cache holds, until the store has answered throughout.
 */
export function readAfterGaps(
  cache: Pick<ConfigCache, "invalidateAll" | "warm" | "reload">,
  clock: Clock,
  stopped: AbortSignal,
): () => void {
  let isFilled = false;
  let isReading = false;
  let isStale = false;

  async function read(): Promise<void> {
    isReading = true;
    while (isStale && !stopped.aborted) {
      isStale = false;
      isFilled ||= await cache.warm();
      if (!isFilled || !(await cache.reload())) isStale = true;
      if (isStale) await pause(clock, READ_AGAIN_MS, stopped);
    }
    isReading = false;
  }

  return () => {
    isStale = true;
    cache.invalidateAll();
    if (!isReading) void read();
  };
}

/**
 * Brings the schema up to date, checks that the secrets are stored under this node's key, reads what all nodes share,
 * then applies changes to the cache as they come.
 */
export function followConfiguration(options: {
  readonly store: OpenConfigStore;
  readonly cache: ConfigCache;
  readonly box: SecretBox;
  readonly tokens: ReturnType<typeof makeLateTokens>;
  /** File of a key that was made at this start. */
  readonly madeKeyFile: string | null;
  readonly clock: Clock;
  readonly watchFeed: (listening: () => boolean) => void;
}): Part {
  const { store, cache, box, tokens, madeKeyFile, clock, watchFeed } = options;
  return {
    name: "configuration",
    start: async () => {
      await store.migrate();
      const { database } = store;
      await refuseOtherKey(makeSealedRows(database), makeKeyMark(database), box, madeKeyFile);
      tokens.load(await ensureSetting(database, TOKEN_KEY_SETTING, () => randomBytes(32)));
      const stopped = new AbortController();
      const feed = await store.follow({
        onChange: (change) => cache.apply(change),
        onGap: readAfterGaps(cache, clock, stopped.signal),
      });
      watchFeed(feed.listening);
      return {
        async [Symbol.asyncDispose]() {
          stopped.abort();
          await feed[Symbol.asyncDispose]();
        },
      };
    },
  };
}
