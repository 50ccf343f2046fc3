import { createHmac } from "node:crypto";

export const GITHUB_SECRET = "it-is-a-secret";

/** Posts a body signed as GitHub does. */
export async function postGithubWebhook(
  url: string,
  body: string,
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
