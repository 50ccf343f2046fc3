import { createHmac } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import { GITHUB_SECRET } from "../../support/github-webhook.ts";
import { nowMs, type SentKind, type SentRequest } from "./ledgers.ts";
import type { SeededRandom } from "./random.ts";

/** Longer than the 3.5 s after which ingest answers 503, short enough to move on from a frozen process. */
const ANSWER_TIMEOUT_MS = 6_000;
const AFTER_RESET_MS = 50;
const TOO_LARGE_BYTES = 20_000;

export interface SenderRoutes {
  readonly genuine: readonly { readonly endpointId: string; readonly url: string }[];
  readonly paused: { readonly endpointId: string; readonly url: string };
}

export interface Sender extends AsyncDisposable {
  readonly sent: readonly SentRequest[];
  readonly acceptedCount: number;
  /** Whether each connection has sent a request to each endpoint: whichever process is at its other end then knows them all. */
  readonly hasMetAll: boolean;
  /** Resolves once the last request is answered. */
  stop(): Promise<void>;
}

export interface SenderOptions {
  readonly routes: SenderRoutes;
  readonly perSecond: number;
  readonly senders: number;
  readonly random: SeededRandom;
}

/** Sends genuine, forged, refused and oversized webhooks at a steady rate until stopped; nothing is sent twice. */
export function startSender({ routes, perSecond, senders, random }: SenderOptions): Sender {
  const sent: SentRequest[] = [];
  const stopping = new AbortController();
  const startedMs = performance.now();
  let number = 0;
  let acceptedCount = 0;
  let stillMeeting = senders;

  /** @returns whether it was answered with something other than 5xx */
  async function sendOne(
    current: number,
    kind: SentKind,
    { endpointId, url }: SenderRoutes["paused"],
    dispatcher: Agent,
  ): Promise<boolean> {
    const body = makeBody(current, kind);
    const secret = kind === "forged" ? "another secret" : GITHUB_SECRET;
    const sentMs = nowMs();
    const answer = await post(url, body, secret, dispatcher);
    if (answer.status === 200) acceptedCount += 1;
    const kept = kind === "too_large" ? `${current}: too large` : body;
    sent.push({
      number: current,
      kind,
      endpointId,
      body: kept,
      sentMs,
      endedMs: nowMs(),
      ...answer,
    });
    const isAnswered = answer.status !== null && answer.status < 500;
    if (!isAnswered) await delay(AFTER_RESET_MS);
    return isAnswered;
  }

  async function post(url: string, body: string, secret: string, dispatcher: Agent) {
    const signature = createHmac("sha256", secret).update(body).digest("hex");
    try {
      const response = await request(url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "x-hub-signature-256": `sha256=${signature}`,
        },
        body,
        dispatcher,
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      });
      await response.body.dump();
      const eventId = response.headers["x-relay-event-id"];
      return {
        status: response.statusCode,
        reason: String(response.statusCode),
        eventId: typeof eventId === "string" ? eventId : null,
      };
    } catch (error) {
      const { code, name } = error as Error & { code?: string };
      return { status: null, reason: code ?? name, eventId: null };
    }
  }

  /**
   * Sends on its own connection, which goes to one of the ingest processes: once to each endpoint, so that this process knows
   * them all, then at random. In a shared pool the first connection would make nearly all requests.
   */
  async function sendInTurn(_: unknown, sender: number): Promise<void> {
    const dispatcher = new Agent({ connections: 1, pipelining: 1 });
    const endpoints = [routes.paused, ...routes.genuine];
    // Each sender begins at a different endpoint, so that the first requests do not all go to the same one.
    const first = sender % endpoints.length;
    const unmet = [...endpoints.slice(first), ...endpoints.slice(0, first)];
    while (!stopping.signal.aborted) {
      const current = (number += 1);
      const byChance = chooseKind(random.next());
      const waitMs = startedMs + (current * 1_000) / perSecond - performance.now();
      if (waitMs > 0) await delay(waitMs);
      const [next] = unmet;
      if (next === undefined) {
        const route = byChance === "paused" ? routes.paused : random.pick(routes.genuine);
        await sendOne(current, byChance, route, dispatcher);
        continue;
      }
      const kind = next === routes.paused ? "paused" : "genuine";
      if (!(await sendOne(current, kind, next, dispatcher))) continue;
      unmet.shift();
      if (unmet.length === 0) stillMeeting -= 1;
    }
    await dispatcher.destroy();
  }

  const running = Promise.all(Array.from({ length: senders }, sendInTurn));
  const stop = async (): Promise<void> => {
    stopping.abort();
    await running;
  };
  return {
    sent,
    get acceptedCount() {
      return acceptedCount;
    },
    get hasMetAll() {
      return stillMeeting === 0;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function chooseKind(chance: number): SentKind {
  if (chance < 0.03) return "forged";
  if (chance < 0.05) return "paused";
  return chance < 0.055 ? "too_large" : "genuine";
}

function makeBody(number: number, kind: SentKind): string {
  const text = kind === "too_large" ? "x".repeat(TOO_LARGE_BYTES) : "ünï\u2028code";
  return JSON.stringify({ number, kind, text });
}

/** Counts each kind of answer, or of a connection's end. */
export function countAnswers(sent: readonly SentRequest[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { reason } of sent) counts[reason] = (counts[reason] ?? 0) + 1;
  return counts;
}
