import { setMaxListeners } from "node:events";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { fetchAnyPort } from "../adapters/undici/fetch-any-port.ts";
import { parseDateTime } from "../api/date-time.ts";
import { firstKeyFile } from "../app/first-key-file.ts";
import { ApiError } from "../client/api-error.ts";
import { makeClient, type Client } from "../client/client.ts";
import { loadConfig } from "../config/load-config.ts";
import { looksLikeApiKey } from "../domain/api-key.ts";
import { isBaseUrl } from "../domain/base-url.ts";
import { chunksOf } from "../domain/chunks.ts";
import { systemReason, UsageError } from "../domain/errors.ts";
import { baseUrlOf } from "./base-url.ts";
import { findDeadEvents, type SearchEvents, type TimeSpan } from "./find-dead-events.ts";
import { printLine, type CommandIo } from "./io.ts";
import { isDeadAt, tellByLists, type ListQuestions } from "./still-dead.ts";

export interface ReplayOptions {
  readonly destination: string;
  readonly from?: string;
  readonly to?: string;
  readonly url?: string;
  readonly keyFile?: string;
  readonly dryRun?: boolean;
}

interface Wanted {
  /** The destination's endpoint. */
  readonly endpointId: string;
  readonly span: TimeSpan;
}

/** What became of an event with a dead delivery: `expired` reached the end of its retention since it was found. */
type Replayed = "replayed" | "passed" | "expired";

const PAGE_LIMIT = 100;
const AT_ONCE = 32;
/** How often a busy relay is asked, each time after what its `Retry-After` says. */
const MAX_TRIES = 10;
const DEFAULT_RETRY_AFTER_SECONDS = 1;

/**
 * `relay replay`: enqueues again, oldest first, what ended `dead` at one destination and was not delivered by a later
 * replay. Prints the id of each such event, and at the end how many there were. Returns 1 when interrupted.
 * @throws {UsageError} for an empty id, an invalid time or a span of none, and when there is no API key
 * @throws {ApiError} when the management API refuses
 */
export async function replay(io: CommandIo, options: ReplayOptions): Promise<number> {
  if (options.destination === "")
    throw new UsageError("--destination must be the id of a destination (dst_…), and is empty");
  const span = askedSpan(options);
  const client = await openClient(io, options);
  try {
    const {
      id,
      status,
      endpoint_id: endpointId,
    } = await patiently(io.signal, () => client.destinations.get(options.destination));
    if (status === "paused" || status === "disabled")
      printLine(io.stderr, `relay: ${id} is ${status}: what is enqueued waits until it is resumed`);
    await replayAll(io, client, options, { endpointId, span });
    return 0;
  } catch (error) {
    if (!io.signal.aborted) throw error;
    printLine(io.stderr, "relay: interrupted; run it again for the rest once these have ended");
    return 1;
  }
}

async function replayAll(
  { stdout, stderr, signal }: CommandIo,
  client: Client,
  { destination, dryRun = false }: ReplayOptions,
  { endpointId, span }: Wanted,
): Promise<void> {
  // Each of those that wait for a busy relay listens; Node would warn of a leak.
  setMaxListeners(0, signal);
  const ask = askLists(client, { destination, endpointId }, signal);
  const attemptsOf = (eventId: string) => patiently(signal, () => client.events.attempts(eventId));
  const replayOne = async (eventId: string, told: boolean | undefined): Promise<Replayed> => {
    try {
      if (!(told ?? isDeadAt(destination, await attemptsOf(eventId)))) return "passed";
      if (!dryRun) await patiently(signal, () => client.events.replayTo(eventId, destination));
      return "replayed";
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // Of the two that it may be, only the event can have been there a moment ago and be gone without anybody's doing.
      return attemptsOf(eventId).then(
        () => Promise.reject(error),
        (reason: unknown) => (isNotFound(reason) ? "expired" : Promise.reject(reason)),
      );
    }
  };
  const counts: Record<Replayed, number> = { replayed: 0, passed: 0, expired: 0 };
  const replayPart = async (
    eventIds: readonly string[],
    told: ReadonlyMap<string, boolean>,
  ): Promise<void> => {
    for (const group of chunksOf(eventIds, AT_ONCE)) {
      signal.throwIfAborted();
      const results = await Promise.allSettled(group.map((id) => replayOne(id, told.get(id))));
      for (const [index, result] of results.entries()) {
        if (result.status === "rejected") continue;
        if (result.value === "replayed") printLine(stdout, group[index]);
        counts[result.value] += 1;
      }
      const failed = results.find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    }
  };
  try {
    for await (const events of findDeadEvents(searchDead(client, destination, signal), span))
      await replayPart(
        events.map(({ id }) => id),
        await tellByLists(events, ask),
      );
  } finally {
    const { replayed, passed, expired } = counts;
    const what = dryRun ? "would be replayed" : "enqueued again";
    const gone = expired > 0 ? `, ${expired} are past the retention by now` : "";
    printLine(
      stderr,
      `${destination}: ${replayed} dead deliveries ${what}, ${passed} were delivered or are tried again since${gone}`,
    );
  }
}

/** @throws {UsageError} for what is not a time */
function readTime(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const time = parseDateTime(text);
  if (time !== null) return time;
  throw new UsageError(`--${name} must be a time with its zone, such as 2026-11-24T09:00:00Z`);
}

async function openClient(
  { env }: CommandIo,
  { url, keyFile }: Pick<ReplayOptions, "url" | "keyFile">,
): Promise<Client> {
  const { api, bootstrap, dataDir } = loadConfig(env);
  const apiUrl = url ?? baseUrlOf(api.host, api.port);
  if (!isBaseUrl(apiUrl))
    throw new UsageError("--url must be the management API's, such as http://localhost:8080");
  const configured = keyFile === undefined ? bootstrap.apiKey : null;
  return makeClient({
    baseUrl: apiUrl,
    apiKey: configured ?? (await readApiKey(keyFile ?? firstKeyFile(dataDir))),
    fetch: fetchAnyPort,
  });
}

async function readApiKey(path: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new UsageError(
      `no API key can be read from ${path} (${systemReason(cause)}): name a file that holds one by --key-file (relay keys create prints one)`,
      { cause },
    );
  }
  const apiKey = text.trim();
  if (looksLikeApiKey(apiKey)) return apiKey;
  throw new UsageError(
    `${path} holds no API key, or more than one: it must hold nothing but the line that relay keys create prints to stdout`,
  );
}

/** Makes the search for what ended `dead` at the destination. */
function searchDead(client: Client, destination: string, signal: AbortSignal): SearchEvents {
  return async (span, page) => {
    signal.throwIfAborted();
    const { data, pagination } = await patiently(signal, () =>
      client.events.search({
        destination_id: destination,
        attempt_status: "dead",
        ...toQuery(span),
        limit: PAGE_LIMIT,
        page,
        delivery_summary: true,
      }),
    );
    return {
      events: data.map(({ id, received_at: receivedAt, delivery_summary: summary }) => ({
        id,
        receivedAtMs: Date.parse(receivedAt),
        summary: summary ?? null,
      })),
      total: pagination.total,
      hasNext: pagination.has_next,
    };
  };
}

function askLists(
  client: Client,
  { destination, endpointId }: { readonly destination: string; readonly endpointId: string },
  signal: AbortSignal,
): ListQuestions {
  return {
    async count(span) {
      const { pagination } = await patiently(signal, () =>
        client.events.search({ endpoint_id: endpointId, ...toQuery(span), limit: 1 }),
      );
      return pagination.total;
    },
    async having(span, status) {
      const { data, pagination } = await patiently(signal, () =>
        client.events.search({
          destination_id: destination,
          attempt_status: status,
          ...toQuery(span),
          limit: PAGE_LIMIT,
        }),
      );
      return pagination.has_next ? null : new Set(data.map((event) => event.id));
    },
  };
}

function toQuery({ fromMs, untilMs }: TimeSpan) {
  return { from: new Date(fromMs).toISOString(), to: new Date(untilMs).toISOString() };
}

/** Returns the time that the options name. Events from now on are left out. @throws {UsageError} when none is left */
function askedSpan({ from, to }: ReplayOptions): TimeSpan {
  const fromMs = readTime("from", from) ?? 0;
  const untilMs = readTime("to", to) ?? Date.now();
  if (fromMs < untilMs) return { fromMs, untilMs };
  throw new UsageError("--from must be earlier than --to (default: now)");
}

function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** Asks again while the relay is busy or one of its stores is down. @throws {ApiError} the last answer */
async function patiently<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1)
    try {
      return await ask();
    } catch (error) {
      const isBusy = error instanceof ApiError && (error.status === 429 || error.status === 503);
      if (!isBusy || tries === MAX_TRIES || signal.aborted) throw error;
      await pause((error.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS) * 1_000, null, {
        signal,
      });
    }
}
