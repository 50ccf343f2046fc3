import type { Attempt } from "./attempt.ts";
import type { AttemptStatus, Provider } from "./enums.ts";
import type { EventRecord } from "./event.ts";
import type {
  AttemptView,
  DeliverySummary,
  EventListItem,
  FacetCounts,
  PageRange,
} from "./event-query.ts";
import type { FanoutRecord } from "./outcome.ts";
import type { TokenList } from "./token-list.ts";

/**
 * An event, and how to add the tokens it is found by (see searchable-leaf.ts). Tokens are made only when the row is written:
 * together they are larger than the payload, and thousands of rows wait for their insert. Those of a large payload are added in turns
 * of the event loop, all of them by the time that the returned promise resolves.
 */
export interface EventRow {
  readonly event: EventRecord;
  readonly addTokens: (tokens: TokenList) => Promise<void> | undefined;
}

/** A row about an event's delivery: an attempt, or the destinations that a run of it goes to. */
export type OutcomeRow = Attempt | FanoutRecord;

export function isFanout(row: OutcomeRow): row is FanoutRecord {
  return "kind" in row;
}

/**
 * What the recorder writes to. A batch is stored once per `batchToken` (as long as the store remembers the token), even when it
 * is repeated after part of it was stored; a row stored twice counts once in every answer. An insert ended by `signal` rejects,
 * but may have been stored.
 */
export interface EventStoreWriter {
  insertEvents(rows: readonly EventRow[], batchToken: string, signal?: AbortSignal): Promise<void>;
  insertOutcomes(
    rows: readonly OutcomeRow[],
    batchToken: string,
    signal?: AbortSignal,
  ): Promise<void>;
}

/** Filters as the store knows them: `terms` are in ASCII lower case and must all occur; `token` is one leaf. */
export interface StoreFilter {
  readonly endpointId?: string | undefined;
  readonly provider?: Provider | undefined;
  readonly signatureValid?: boolean | undefined;
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
  readonly terms: readonly string[];
  readonly token?: string | undefined;
  readonly attemptStatus?: AttemptStatus | undefined;
  readonly destinationId?: string | undefined;
}

/** Returns whether events are searched for by their content, which takes indexes or a scan of all of them. */
export function isSearch({ terms, token }: StoreFilter): boolean {
  return terms.length > 0 || token !== undefined;
}

/** Identifies an event's row; the time is the one in its id. */
export interface EventKey {
  readonly id: string;
  readonly receivedAtMs: number;
}

/** An attempt as stored; its number follows from the order of time, its run and its try number. */
export type StoredAttempt = Omit<AttemptView, "attemptNumber"> & Pick<Attempt, "run" | "tryNumber">;

/** All that is stored about an event's delivery. */
export interface EventOutcomes {
  readonly attempts: readonly StoredAttempt[];
  /** Destinations that the event was fanned out to, replays included; null when it never was. */
  readonly destinationIds: readonly string[] | null;
}

/** One page of a search, newest first. */
export interface EventPage {
  readonly items: readonly EventListItem[];
  /** How many events match in all, if this page reaches the last of them; null if they would have to be counted. */
  readonly total: number | null;
}

/**
 * What the queries read from; everything is scoped to one organization. `signal` ends a read in the store as well.
 * @throws {EventStoreError} from every call
 */
export interface EventStoreReader {
  page(
    orgId: string,
    filter: StoreFilter,
    range: PageRange,
    signal?: AbortSignal,
  ): Promise<EventPage>;
  count(orgId: string, filter: StoreFilter, signal?: AbortSignal): Promise<number>;
  facets(orgId: string, filter: StoreFilter, signal?: AbortSignal): Promise<FacetCounts>;
  event(orgId: string, key: EventKey): Promise<EventRecord | null>;
  /**
   * Returns those that are stored, by their ids, for little more than one of them costs. A large one is not read but by `event`.
   * @param keys at most a few dozen
   */
  smallEvents(
    orgId: string,
    keys: readonly EventKey[],
  ): Promise<ReadonlyMap<string, EventRecord | "large">>;
  /** Returns the ids of the events that are stored. @param keys at most a few hundred */
  existing(orgId: string, keys: readonly EventKey[]): Promise<ReadonlySet<string>>;
  /** Returns the ids of the events that have a stored fan-out. @param keys at most a few hundred */
  fannedOut(orgId: string, keys: readonly EventKey[]): Promise<ReadonlySet<string>>;
  attempts(orgId: string, key: EventKey): Promise<readonly StoredAttempt[]>;
  outcomes(orgId: string, key: EventKey): Promise<EventOutcomes>;
  /** Returns no entry for an event that was never fanned out. */
  summaries(
    orgId: string,
    keys: readonly EventKey[],
  ): Promise<ReadonlyMap<string, DeliverySummary>>;
}

/**
 * `query_limit`: a time, row or memory limit was hit; `store_busy`: the query's turn did not come in time; `store_unavailable`:
 * no answer, or no such user, right, database or table; `store_refused`: a bug or a wrong schema.
 */
export class EventStoreError extends Error {
  readonly code: "query_limit" | "store_busy" | "store_unavailable" | "store_refused";
  constructor(code: EventStoreError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "EventStoreError";
    this.code = code;
  }
}
