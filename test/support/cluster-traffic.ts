import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "../../src/client/client.ts";
import type { LedgerReceiver } from "./cluster-receiver.ts";
import { GITHUB_SECRET, postGithubWebhook } from "./github-webhook.ts";
import { waitFor } from "./wait-for.ts";

/** What was sent, and how it was answered. */
export interface Traffic extends AsyncDisposable {
  /** Event id → body of everything answered 2xx. */
  readonly accepted: ReadonlyMap<string, string>;
  /** Start of the traffic (RFC 3339): nothing was sent earlier. */
  readonly since: string;
  /** Number of other answers by status, and of requests that ended without an answer by the socket's error. */
  readonly refused: Readonly<Record<string, number>>;
  /** Stops sending, and resolves once the last request is answered. */
  stop(): Promise<void>;
}

export interface Route {
  readonly urls: readonly string[];
}

/** Creates endpoints with one destination each at the receiver, enough to be on every partition. */
export async function makeRoute(
  client: Client,
  receiver: LedgerReceiver,
  endpoints = 12,
): Promise<Route> {
  const project = await client.projects.create({ name: `Load ${Date.now()}` });
  const urls: string[] = [];
  for (let index = 0; index < endpoints; index += 1) {
    const endpoint = await client.endpoints.create(project.id, {
      name: `GitHub ${index}`,
      provider: "github",
      secret: GITHUB_SECRET,
    });
    await client.destinations.create(endpoint.id, {
      name: "Receiver",
      receiver_url: `${receiver.url}/hook`,
      // On a busy machine tries time out and lanes fill: the retry schedule must outlast that.
      retry_backoff: "exponential",
      retry_max_attempts: 10,
    });
    urls.push(endpoint.url);
  }
  return { urls };
}

const SENDERS = 24;
/** Longer than any answer may take: a request still open by then has been forgotten. */
const ANSWER_TIMEOUT_MS = 20_000;

/** Sends signed webhooks to all endpoints in turn, at most `perSecond`, until stopped. Nothing is sent twice. */
export function startTraffic({ urls }: Route, perSecond: number): Traffic {
  const accepted = new Map<string, string>();
  const refused: Record<string, number> = {};
  const count = (what: string) => (refused[what] = (refused[what] ?? 0) + 1);
  const startedMs = performance.now();
  let sent = 0;
  const since = new Date(Date.now() - 1_000).toISOString();
  const stopping = new AbortController();
  const send = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const number = (sent += 1);
      const waitMs = startedMs + (number * 1_000) / perSecond - performance.now();
      if (waitMs > 0) await delay(waitMs);
      const url = urls[number % urls.length] ?? "";
      const body = JSON.stringify({ number, text: "ünï\u2028code", startedMs });
      try {
        const { status, eventId } = await postGithubWebhook(url, body, GITHUB_SECRET, {
          signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
        });
        if (status === 200) accepted.set(eventId, body);
        else count(String(status));
      } catch (error) {
        const { cause, name } = error as Error & { cause?: { code?: string } };
        count(cause?.code ?? name);
        await delay(20);
      }
    }
  };
  const senders = Promise.all(Array.from({ length: SENDERS }, send));
  const stop = async (): Promise<void> => {
    stopping.abort();
    await senders;
  };
  return { accepted, since, refused, stop, [Symbol.asyncDispose]: stop };
}

/** Waits until every accepted event is delivered. @returns how many requests these events took, and how many repeated a try */
export async function waitForDeliveries(
  { accepted }: Traffic,
  receiver: LedgerReceiver,
  timeoutMs = 90_000,
): Promise<{ readonly requests: number; readonly repeated: number }> {
  const seen = () => new Set(receiver.entries.map(({ eventId }) => eventId));
  await waitFor(
    "all deliveries",
    () => {
      const delivered = seen();
      return [...accepted.keys()].every((id) => delivered.has(id));
    },
    timeoutMs,
    200,
  ).catch((error: unknown) => {
    const delivered = seen();
    const missing = [...accepted.keys()].filter((id) => !delivered.has(id));
    throw new Error(
      `${missing.length} of ${accepted.size} missing: ${missing.slice(0, 5).join()}`,
      {
        cause: error,
      },
    );
  });
  const own = receiver.entries.filter(({ eventId }) => accepted.has(eventId));
  const tries = new Set(own.map(({ eventId, tryNumber }) => `${eventId} ${tryNumber}`));
  return { requests: own.length, repeated: own.length - tries.size };
}

/** Counts deliveries whose bytes differ from those accepted. */
export function countWrongBodies({ accepted }: Traffic, receiver: LedgerReceiver): number {
  return receiver.entries.filter(({ eventId, body }) => {
    const sent = accepted.get(eventId);
    return sent !== undefined && sent !== body;
  }).length;
}

/** Waits until the API lists every accepted event. */
export async function waitUntilListed({ accepted, since }: Traffic, client: Client): Promise<void> {
  let missing: readonly string[] = [];
  await waitFor(
    "all events in the list",
    async () => {
      const listed = new Set<string>();
      for (let page = 1; ; page += 1) {
        const { data, pagination } = await client.events.search({
          from: since,
          limit: 100,
          page,
        });
        for (const { id } of data) listed.add(id);
        if (!pagination.has_next) break;
      }
      missing = [...accepted.keys()].filter((id) => !listed.has(id));
      return missing.length === 0;
    },
    60_000,
    500,
  ).catch((error: unknown) => {
    throw new Error(`${missing.length} of ${accepted.size} not listed`, { cause: error });
  });
}

/** Reads every `every`th event through the API. @returns those whose payload differs */
export async function findWrongPayloads(
  { accepted }: Traffic,
  client: Client,
  every: number,
): Promise<readonly string[]> {
  const wrong: string[] = [];
  const queue = [...accepted].filter((_, index) => index % every === 0);
  const read = async (): Promise<void> => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      const [id, body] = next;
      if ((await client.events.get(id)).payload !== body) wrong.push(id);
    }
  };
  await Promise.all(Array.from({ length: 4 }, read));
  return wrong;
}
