import { createHmac } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { RelayConfig } from "../config/config.ts";
import { makeClient } from "../client/client.ts";
import { firstKeyFile } from "./first-key-file.ts";
import { openApiKeys } from "./open-api-keys.ts";
import type { OpenConfigStore } from "./open-config-store.ts";

const SECRET = "it-is-a-secret";
const BODY = '{"hello":"relay"}';

export type FirstKey =
  | { readonly kind: "usable"; readonly key: string }
  /** It stays revoked: `source` says where it comes from. */
  | { readonly kind: "revoked"; readonly source: string }
  | { readonly kind: "none" };

/**
 * Makes sure of the configured key; embedded without one, of a first key that stays in the data directory (0600).
 * A key in that file which the store does not know is replaced, a revoked one is not.
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
  const known = (await readFile(file, "utf8").catch(() => "")).trim();
  const state = known === "" ? "unknown" : await keys.stateOf(known);
  if (state === "usable") return { kind: "usable", key: known };
  if (state === "revoked") return { kind: "revoked", source: file };
  const { key } = await keys.create(org, ["read", "write"]);
  await writeFile(file, `${key}\n`, { mode: 0o600 });
  return { kind: "usable", key };
}

/**
 * Three lines for a shell: create an endpoint, send it a signed webhook, list the recorded event.
 * @param shownKey what stands for the key in the lines: the key, or the shell variable that holds it
 */
export async function firstCurlLines(
  urls: { readonly api: string },
  key: string,
  shownKey: string,
): Promise<readonly string[]> {
  const client = makeClient({ baseUrl: urls.api, apiKey: key });
  const { data } = await client.projects.list({ limit: 1 });
  const project = data[0] ?? (await client.projects.create({ name: "First steps" }));
  const auth = `-H "Authorization: Bearer ${shownKey}"`;
  const signature = createHmac("sha256", SECRET).update(BODY).digest("hex");
  return [
    `URL=$(curl -s ${urls.api}/projects/${project.id}/endpoints ${auth} -H 'Content-Type: application/json' -d '{"name":"my first endpoint","provider":"github","secret":"${SECRET}"}' | sed 's/.*"url":"\\([^"]*\\)".*/\\1/'); echo "$URL"`,
    `curl -s "$URL" -H 'Content-Type: application/json' -H 'X-Hub-Signature-256: sha256=${signature}' -d '${BODY}'; echo`,
    `sleep 1; curl -s '${urls.api}/events?limit=1' ${auth}; echo`,
  ];
}
