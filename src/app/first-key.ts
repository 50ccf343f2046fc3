import type { RelayConfig } from "../config/config.ts";
import { replaceFile } from "../embedded/replace-file.ts";
import { firstKeyFile } from "./first-key-file.ts";
import { openApiKeys } from "./open-api-keys.ts";
import type { OpenConfigStore } from "./open-config-store.ts";
import { readOrNull } from "./read-or-null.ts";

export type FirstKey =
  | { readonly kind: "usable"; readonly key: string }
  /** It stays revoked; `source` says where it comes from. */
  | { readonly kind: "revoked"; readonly source: string }
  | { readonly kind: "none" };

/**
 * Makes sure that the configured key exists or, for an embedded store without one, a first key that is kept in the data
 * directory (0600). A key in that file that the store does not know is replaced; a revoked one is not.
 * @throws {UsageError} when that file exists but cannot be read, or the configured key is not one
 */
export async function ensureFirstKey(
  config: RelayConfig,
  store: OpenConfigStore,
): Promise<FirstKey> {
  const keys = openApiKeys(store);
  const { apiKey, org } = config.bootstrap;
  if (apiKey !== null)
    return (await keys.ensureBootstrap(org, apiKey)) === "revoked"
      ? { kind: "revoked", source: "RELAY_BOOTSTRAP_API_KEY" }
      : { kind: "usable", key: apiKey };
  if (config.databaseUrl !== null) return { kind: "none" };
  const file = firstKeyFile(config.dataDir);
  const text = await readOrNull(file, "let this user read it, or move it away");
  const known = text?.trim() ?? "";
  const state = known === "" ? "unknown" : await keys.stateOf(known);
  if (state === "usable") return { kind: "usable", key: known };
  if (state === "revoked") return { kind: "revoked", source: file };
  const { key } = await keys.create(org, ["read", "write"]);
  // Renamed into place, so that whoever waits for the file finds it complete. A process attached to the directory may
  // make one at the same moment.
  await replaceFile(file, `${key}\n`);
  return { kind: "usable", key };
}
