import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "../../client/client.ts";
import type { Attempt, Event, Facets } from "../../client/types.ts";
import { signSample } from "../../signing/sign-sample.ts";
import { samplePayloads, type SamplePayload } from "./payloads.ts";
import type { DemoReceiver } from "./receiver.ts";

/** The demo's destinations: the paths of the receiver that they point to, by provider of their endpoint. */
const DESTINATION_PATHS = {
  stripe: ["/ok", "/flaky"],
  github: ["/ok", "/dead"],
  shopify: ["/ok"],
  twilio: ["/ok"],
  linear: ["/ok"],
} as const;
export const DEAD_RETRIES = 2;
const SECRET = "whsec_demo_secret_of_the_provider";
const WAIT_MS = 30_000;

interface SentWebhook {
  readonly provider: string;
  readonly forged: boolean;
  readonly status: number;
  readonly eventId: string;
}

interface DestinationSecret {
  readonly id: string;
  readonly path: string;
  readonly serviceSecret: string;
}

export interface DemoResult {
  readonly sent: readonly SentWebhook[];
  readonly events: readonly Event[];
  /** The attempts of all events, in the order of `events`. */
  readonly attempts: readonly Attempt[];
  readonly destinations: readonly DestinationSecret[];
  readonly facets: Facets;
  readonly receiver: DemoReceiver;
}

/** Creates the resources, sends one good and one forged webhook per provider, and waits until all deliveries have ended. */
export async function runScenario(
  client: Client,
  receiver: DemoReceiver,
  signal: AbortSignal,
): Promise<DemoResult> {
  const project = await client.projects.create({ name: "Demo shop" });
  const destinations: DestinationSecret[] = [];
  const sent: SentWebhook[] = [];
  for (const payload of samplePayloads(Date.now())) {
    signal.throwIfAborted();
    const endpoint = await client.endpoints.create(project.id, {
      name: `${payload.provider} webhooks`,
      provider: payload.provider,
      secret: SECRET,
    });
    for (const path of DESTINATION_PATHS[payload.provider]) {
      const created = await client.destinations.create(endpoint.id, {
        name: `receiver ${path}`,
        receiver_url: receiver.baseUrl + path,
        retry_backoff: "fixed",
        ...(path === "/dead" ? { retry_max_attempts: DEAD_RETRIES } : {}),
      });
      destinations.push({ id: created.id, path, serviceSecret: created.service_secret });
    }
    sent.push(
      await send(payload, endpoint.url, SECRET, false),
      await send(payload, endpoint.url, "not-the-secret", true),
    );
  }
  const events = await waitForEnd(client, sent.length, signal);
  const attempts = (
    await Promise.all(events.map((event) => client.events.attempts(event.id)))
  ).flat();
  return { sent, events, attempts, destinations, facets: await client.events.facets(), receiver };
}

async function send(
  payload: SamplePayload,
  url: string,
  secret: string,
  forged: boolean,
): Promise<SentWebhook> {
  const body = Buffer.from(payload.body);
  const signature = signSample({
    provider: payload.provider,
    method: payload.provider === "twilio" ? "twilio_signature" : "hmac_sha256",
    methodIsExplicit: false,
    secret,
    config: {},
    body,
    nowMs: Date.now(),
    url,
    httpMethod: "POST",
  });
  const response = await fetch(url, {
    method: "POST",
    headers: [
      ...Object.entries({ ...payload.headers, "content-type": payload.contentType }),
      ...signature.map(([name, value]): [string, string] => [name, value]),
    ],
    body,
  });
  await response.arrayBuffer();
  return {
    provider: payload.provider,
    forged,
    status: response.status,
    eventId: response.headers.get("x-relay-event-id") ?? "",
  };
}

async function waitForEnd(
  client: Client,
  count: number,
  signal: AbortSignal,
): Promise<readonly Event[]> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const { data } = await client.events.search({ delivery_summary: true, limit: 100 });
    const ended = data.every(
      (event) => !event.signature_valid || event.delivery_summary?.pending === 0,
    );
    if ((data.length === count && ended) || Date.now() > deadline) return data;
    await delay(100, undefined, { signal });
  }
}
