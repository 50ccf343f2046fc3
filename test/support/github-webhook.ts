import { createHmac } from "node:crypto";
import type { Client } from "../../src/client/client.ts";

export const GITHUB_SECRET = "it-is-a-secret";

/** Posts a body signed as GitHub does. */
export async function postGithubWebhook(
  url: string,
  body: string | Uint8Array<ArrayBuffer>,
  secret = GITHUB_SECRET,
  options: { readonly signal?: AbortSignal } = {},
): Promise<{ readonly status: number; readonly eventId: string }> {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
    },
    body,
    ...options,
  });
  await response.arrayBuffer();
  return { status: response.status, eventId: response.headers.get("x-relay-event-id") ?? "" };
}

/** Creates an endpoint for what `postGithubWebhook` sends, in a project of its own. */
export async function createGithubEndpoint(client: Client, projectName: string) {
  const project = await client.projects.create({ name: projectName });
  return client.endpoints.create(project.id, {
    name: "GitHub",
    provider: "github",
    secret: GITHUB_SECRET,
  });
}
