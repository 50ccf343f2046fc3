import { randomBytes } from "node:crypto";
import { makeApiKeyStore } from "../adapters/postgres/key-store.ts";
import { makeIdGenerator } from "../domain/ids.ts";
import { makeApiKeys, type ApiKeys } from "../management/api-keys.ts";
import type { OpenConfigStore } from "./open-config-store.ts";

/** Opens the API keys of a configuration store, with the real clock and randomness. */
export function openApiKeys(store: OpenConfigStore): ApiKeys {
  return makeApiKeys({
    keys: makeApiKeyStore(store.database),
    now: Date.now,
    randomBytes,
    newId: makeIdGenerator(),
  });
}
