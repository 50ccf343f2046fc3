import { chunksOf } from "../../domain/chunks.ts";
import type { Clock } from "../../domain/clock.ts";
import { RelayError } from "../../domain/errors.ts";
import type { EventFilter, EventListItem, EventQueries } from "../../domain/event-query.ts";
import type { EventRecord } from "../../domain/event.ts";
import {
  EventStoreError,
  isSearch,
  type EventKey,
  type EventStoreReader,
  type StoreFilter,
} from "../../domain/event-store.ts";
import { withinOrCalledOff } from "../../domain/follow-signal.ts";
import { timeOfId } from "../../domain/ids.ts";
import { Rounds } from "../../domain/rounds.ts";
import { tokenOfField } from "../../domain/searchable-leaf.ts";
import { Arrivals } from "./arrivals.ts";
import { FanoutArrivals, type FanoutPorts } from "./fanout-arrivals.ts";
import { numberAttempts } from "./number-attempts.ts";
import { searchTerms } from "./search-terms.ts";
import { summarizeDeliveries } from "./summarize-deliveries.ts";
import { translateStoreErrors } from "./translate-store-errors.ts";

/** How old an event (or, by another node's clock, how far ahead) may be and still be on its way into the store. */
const YOUNG_MS = 10_000;
const WAIT_MS = 2_000;
/** An older event without a fan-out means that the delivery role lags or is down: waiting would be in vain. */
const FANOUT_YOUNG_MS = 5_000;
/**
 * The first page of a busy organization always has events whose fan-out is on its way. It waits for the newest alone, for as
 * long as two batches of a quiet recorder take, and not for a busy recorder, which gathers a batch for a second.
 */
const LIST_YOUNG_MS = 1_000;
const LIST_WAIT_MS = 400;
/** Most events that one statement reads. */
const EVENTS_AT_ONCE = 32;
/** The store limits each statement; a list may need several, one after the other, and a client waits for all of them. */
const MAX_QUESTION_MS = 15_000;

export interface EventQueryPorts extends Pick<FanoutPorts, "destinationsOf"> {
  readonly store: EventStoreReader;
  readonly clock: Clock;
  /** How long events are shown, however long the store keeps them. */
  readonly retentionMs?: number;
  /** Longest that a list or facets may take in all. */
  readonly maxQuestionMs?: number;
}

/**
 * Makes the read side of the API over an event store. Waits up to 2 s for an event id younger than 10 s, so that what was just
 * answered can be read, and within the same 2 s for its fan-out, which is recorded separately. A list with summaries waits for
 * fan-outs up to 0.4 s. What is older than the retention is not shown: the store drops it table by table, in parts of up to a
 * day, so an event might appear without the attempts that it had.
 * @throws {RelayError} `unavailable` from every call when the store is down or a query hits its limit; `validation_error` for a
 * `q` of white space
 */
export function makeEventQueries({
  store,
  clock,
  destinationsOf,
  retentionMs = Infinity,
  maxQuestionMs = MAX_QUESTION_MS,
}: EventQueryPorts): EventQueries {
  const oldestMs = (): number => Math.ceil(clock.now() - retentionMs);
  const toKept = (filter: EventFilter): StoreFilter => {
    const fromMs = Math.max(filter.fromMs ?? -Infinity, oldestMs());
    return { ...toStoreFilter(filter), ...(fromMs === -Infinity ? {} : { fromMs }) };
  };
  const arrivals = new Arrivals((orgId, keys) => store.existing(orgId, keys), clock);
  /** Reads events together that are asked for at the same time, as by a replay of many. */
  const eventReads = new Rounds<EventKey, EventRecord | "large" | null>(async (orgId, keys) => {
    if (keys.length === 1) return [await store.event(orgId, keys[0]!)];
    const parts = chunksOf(keys, EVENTS_AT_ONCE);
    const found = await Promise.all(parts.map((part) => store.smallEvents(orgId, part)));
    return found.flatMap((events, part) => parts[part]!.map(({ id }) => events.get(id) ?? null));
  });
  const fanouts = new FanoutArrivals({ store, clock, destinationsOf });
  /** Answers about one event. Reads at once; only one that is young and not there yet is waited for and read again. */
  const answerOne = <T>(
    orgId: string,
    id: string,
    read: (key: EventKey, endAtMs: number) => Promise<T | null>,
  ): Promise<T | null> =>
    translateStoreErrors({}, async () => {
      const receivedAtMs = timeOfId("event", id);
      if (receivedAtMs === null || receivedAtMs < oldestMs()) return null;
      const key = { id, receivedAtMs };
      const endAtMs = clock.monotonic() + WAIT_MS;
      let found = await read(key, endAtMs);
      while (found === null) {
        const isYoung = Math.abs(clock.now() - receivedAtMs) < YOUNG_MS;
        if (!isYoung || clock.monotonic() >= endAtMs) return null;
        if (await arrivals.wait(orgId, key, endAtMs)) found = await read(key, endAtMs);
      }
      return found;
    });
  const summarized = async (
    orgId: string,
    items: readonly EventListItem[],
  ): Promise<EventListItem[]> => {
    const endAtMs = clock.monotonic() + LIST_WAIT_MS;
    const summaries = await store.summaries(orgId, items);
    const missing = items.filter(({ id }) => !summaries.has(id));
    const came = await fanouts.wait(orgId, missing, { youngMs: LIST_YOUNG_MS, endAtMs });
    const late = came.length > 0 ? await store.summaries(orgId, came) : summaries;
    return items.map((item) => ({
      ...item,
      deliverySummary: summaries.get(item.id) ?? late.get(item.id) ?? null,
    }));
  };
  const answerInTime = <T>(
    filter: EventFilter,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> =>
    translateStoreErrors(filter, () =>
      withinOrCalledOff(signal, maxQuestionMs, work, () => {
        const seconds = maxQuestionMs / 1_000;
        throw new EventStoreError("query_limit", `The statements of a question took ${seconds} s`);
      }),
    );
  return {
    list: (orgId, filter, range, withSummary, given) =>
      answerInTime(filter, given, async (signal) => {
        const wanted = toKept(filter);
        const page = store.page(orgId, wanted, range, signal);
        const [{ items: onPage, total }, items, counted] = await Promise.all([
          page,
          page.then((found) => (withSummary ? summarized(orgId, found.items) : found.items)),
          // A search reads the indexes of every day: counting beside it would make both take twice as long, mostly for nothing.
          isSearch(wanted)
            ? page.then((found) => found.total ?? store.count(orgId, wanted, signal))
            : store.count(orgId, wanted, signal),
        ]);
        // Events may have come between page and count: the page's own total takes precedence.
        if (total !== null) return { items, total };
        const untilHere = range.offset + onPage.length;
        if (counted > untilHere || isSearch(wanted)) return { items, total: counted };
        // A full page is the last one only if a count that began after it says so.
        return { items, total: Math.max(untilHere, await store.count(orgId, wanted, signal)) };
      }),
    facets: (orgId, filter, given) =>
      answerInTime(filter, given, async (signal) => store.facets(orgId, toKept(filter), signal)),
    detail: (orgId, id, beforeLarge) =>
      answerOne(orgId, id, async (key, endAtMs) => {
        const [small, found] = await Promise.all([
          store.smallEvents(orgId, [key]).then((events) => events.get(id) ?? null),
          store.outcomes(orgId, key),
        ]);
        if (small === "large") await beforeLarge?.();
        const event = small === "large" ? await store.event(orgId, key) : small;
        if (event === null) return null;
        const missing = found.destinationIds === null ? [event] : [];
        const came = await fanouts.wait(orgId, missing, { youngMs: FANOUT_YOUNG_MS, endAtMs });
        const late = came.length > 0 ? await store.outcomes(orgId, key) : null;
        const { attempts, destinationIds } = late ?? found;
        return {
          event,
          attempts: await numberAttempts(attempts),
          deliverySummary: summarizeDeliveries(attempts, destinationIds),
        };
      }),
    event: (orgId, id) =>
      answerOne(orgId, id, async (key) => {
        const found = await eventReads.ask(orgId, key);
        return found === "large" ? store.event(orgId, key) : found;
      }),
    attempts: (orgId, id) =>
      answerOne(orgId, id, async (key) => {
        const [stored, attempts] = await Promise.all([
          store.existing(orgId, [key]),
          store.attempts(orgId, key),
        ]);
        return stored.has(id) ? await numberAttempts(attempts) : null;
      }),
  };
}

function toStoreFilter({ q, field, ...rest }: EventFilter): StoreFilter {
  const terms = q === undefined ? [] : searchTerms(q);
  if (q !== undefined && terms.length === 0)
    throw new RelayError(
      "validation_error",
      "q needs at least one character that is not white space",
      { field: "q" },
    );
  const token = field === undefined ? undefined : tokenOfField(field.path, field.value);
  return { ...rest, terms, token };
}
