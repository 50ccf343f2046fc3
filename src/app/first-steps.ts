import { createHmac, randomUUID } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import type { RelayConfig } from "../config/config.ts";
import { makeClient } from "../client/client.ts";
import { firstKeyFile } from "./first-key-file.ts";
import { openApiKeys } from "./open-api-keys.ts";
import type { OpenConfigStore } from "./open-config-store.ts";

const SECRET = "it-is-a-secret";
const BODY = '{"hello":"relay"}';

export type FirstKey =
  | { readonly kind: "usable"; readonly key: string }
  /** It stays revoked; `source` says where it comes from. */
  | { readonly kind: "revoked"; readonly source: string }
  | { readonly kind: "none" };

/**
 * Makes sure that the configured key exists or, for an embedded store without one, a first key that is kept in the data
 * directory (0600). A key in that file that the store does not know is replaced; a revoked one is not.
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
  // Renamed into place, so that whoever waits for the file finds it complete. A process attached to the directory may
  // make one at the same moment.
  const whole = `${file}.${randomUUID()}`;
  await writeFile(whole, `${key}\n`, { mode: 0o600 });
  await rename(whole, file);
  return { kind: "usable", key };
}

/** Returns the id of the project listed first, or null. @throws what the client throws */
export async function findProject(apiUrl: string, key: string): Promise<string | null> {
  const client = makeClient({ baseUrl: apiUrl, apiKey: key });
  const { data } = await client.projects.list({ limit: 1 });
  return data[0]?.id ?? null;
}

/**
 * Returns three lines for a shell: create an endpoint, send it a signed webhook, list the recorded event.
 * @param projectId null makes the first line create one as well
 * @param shownKey what stands for the key in the lines: the key, or the shell variable that holds it
 */
export function firstCurlLines(
  apiUrl: string,
  projectId: string | null,
  shownKey: string,
): readonly string[] {
  const auth = `-H "Authorization: Bearer ${shownKey}"`;
  const json = `${auth} -H 'Content-Type: application/json'`;
  const signature = createHmac("sha256", SECRET).update(BODY).digest("hex");
  const project =
    projectId === null
      ? `curl -s '${apiUrl}/projects' ${json} -d '{"name":"First steps"}' >/dev/null; PROJECT=$(curl -s '${apiUrl}/projects?limit=1' ${auth} | ${valueOf("id")}); `
      : `PROJECT=${projectId}; `;
  return [
    `${project}URL=$(curl -s "${apiUrl}/projects/$PROJECT/endpoints" ${json} -d '{"name":"my first endpoint","provider":"github","secret":"${SECRET}"}' | ${valueOf("url")}); echo "$URL"`,
    `curl -s "$URL" -H 'Content-Type: application/json' -H 'X-Hub-Signature-256: sha256=${signature}' -d '${BODY}'; echo`,
    `sleep 1; curl -s '${apiUrl}/events?limit=1' ${auth}; echo`,
  ];
}

/** Returns a command that extracts a field's value from a JSON answer with only one such field. */
function valueOf(field: string): string {
  return `sed 's/.*"${field}":"\\([^"]*\\)".*/\\1/'`;
}
