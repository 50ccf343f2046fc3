import { createHmac } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RelayConfig } from "../config/config.ts";
import { makeClient } from "../client/client.ts";
import { openApiKeys } from "./open-api-keys.ts";
import type { OpenConfigStore } from "./open-config-store.ts";

const SECRET = "it-is-a-secret";
const BODY = '{"hello":"relay"}';

/** Makes sure of the configured key; embedded without one, of a first key that stays in the data directory (0600). */
export async function ensureFirstKey(
  config: RelayConfig,
  store: OpenConfigStore,
): Promise<string | null> {
  const keys = openApiKeys(store);
  const { apiKey, org } = config.bootstrap;
  if (apiKey !== null) {
    await keys.ensureBootstrap(org, apiKey);
    return apiKey;
  }
  if (config.databaseUrl !== null) return null;
  const file = join(config.dataDir, "first-api-key");
  const known = await readFile(file, "utf8").catch(() => null);
  if (known !== null) return known.trim();
  const { key } = await keys.create(org, ["read", "write"]);
  await writeFile(file, `${key}\n`, { mode: 0o600 });
  return key;
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
