import { randomBytes } from "node:crypto";
import { makeSealedRows } from "../adapters/postgres/sealed-rows.ts";
import { ensureSetting } from "../adapters/postgres/settings.ts";
import type { Clock } from "../domain/clock.ts";
import type { ConfigCache } from "../management/config-cache.ts";
import type { SecretBox } from "../management/secret-box.ts";
import { installationOf } from "./installation.ts";
import { makeKeyMark, refuseOtherKey } from "./key-mark.ts";
import type { LateTokens } from "./late-tokens.ts";
import type { OpenConfigStore } from "./open-config-store.ts";
import { readAfterGaps } from "./read-after-gaps.ts";
import type { Part } from "./supervisor.ts";

const TOKEN_KEY_SETTING = "ingest_token_key";

/**
 * Brings the schema up to date, checks that the secrets are stored under this node's key, reads what all nodes share,
 * then applies changes to the cache as they come.
 */
export function followConfiguration(options: {
  readonly store: OpenConfigStore;
  readonly cache: ConfigCache;
  readonly box: SecretBox;
  readonly tokens: LateTokens;
  /** File of a key that was made at this start. */
  readonly madeKeyFile: string | null;
  /** Whether the store is that of another relay, which runs. */
  readonly isAttached: boolean;
  readonly clock: Clock;
  readonly watchFeed: (listening: () => boolean) => void;
  /** @throws {UsageError} where the log belongs to the relay of another database */
  readonly refuseOthersLog: (installation: string) => Promise<void>;
}): Part {
  const { store, cache, box, tokens, madeKeyFile, isAttached, clock, watchFeed } = options;
  return {
    name: "configuration",
    start: async () => {
      await store.migrate();
      await store.checkConnections();
      const { database } = store;
      await refuseOtherKey(makeSealedRows(database), makeKeyMark(database), box, {
        madeFile: madeKeyFile,
        isAttached,
      });
      const tokenKey = await ensureSetting(database, TOKEN_KEY_SETTING, () => randomBytes(32));
      await options.refuseOthersLog(installationOf(tokenKey));
      tokens.load(tokenKey);
      const stopped = new AbortController();
      const feed = store.follow({
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
