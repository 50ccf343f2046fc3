import { createHmac } from "node:crypto";
import { fetchAnyPort } from "../adapters/undici/fetch-any-port.ts";
import { makeClient } from "../client/client.ts";

const SECRET = "it-is-a-secret";
const BODY = '{"hello":"relay"}';

/** Returns the id of the project listed first, or null. @throws what the client throws */
export async function findProject(apiUrl: string, key: string): Promise<string | null> {
  const client = makeClient({ baseUrl: apiUrl, apiKey: key, fetch: fetchAnyPort });
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
