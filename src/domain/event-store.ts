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
 * An event, and how to add the tokens it is found by (see searchable-leaf.ts). They are made when the row is written:
 * together they are larger than the payload, and thousands of rows wait for their insert.
 */
export interface EventRow {
  readonly event: EventRecord;
  readonly addTokens: (tokens: TokenList) => void;
}

/** What came of an event: an attempt to deliver it, or to whom a run of it goes. */
export type OutcomeRow = Attempt | FanoutRecord;

export function isFanout(row: OutcomeRow): row is FanoutRecord {
  return "kind" in row;
}

/**
 * What the recorder writes to. A batch is stored once per `batchToken` (as far as the store remembers tokens), also when it is
 * repeated after a part of it was stored; the same row twice counts once in every answer. An insert that `signal` ends rejects,
 * and may have been stored.
 */
export interface EventStoreWriter {
  insertEvents(rows: readonly EventRow[], batchToken: string, signal?: AbortSignal): Promise<void>;
  insertOutcomes(
    rows: readonly OutcomeRow[],
    batchToken: string,
    signal?: AbortSignal,
  ): Promise<void>;
}

/** Filters as the store knows them: `terms` in ASCII lower case, all of them occur; `token` is one leaf. */
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

/** Whether events are looked for by what is in them, by indexes or all of them. */
export function isSearch({ terms, token }: StoreFilter): boolean {
  return terms.length > 0 || token !== undefined;
}

/** Names an event's row: the time is the one inside its id. */
export interface EventKey {
  readonly id: string;
  readonly receivedAtMs: number;
}

/** An attempt as stored; numbers are counted from the order of time and from which try of which run it is. */
export type StoredAttempt = Omit<AttemptView, "attemptNumber"> & Pick<Attempt, "run" | "tryNumber">;

/** What came of an event. */
export interface EventOutcomes {
  readonly attempts: readonly StoredAttempt[];
  /** Whom the event was fanned out to, replays included; null when it never was. */
  readonly destinationIds: readonly string[] | null;
}

/** One page of a search, newest first. */
export interface EventPage {
  readonly items: readonly EventListItem[];
  /** How many events match in all, where this page reaches the last of them; null where they would have to be counted. */
  readonly total: number | null;
}

/**
 * What the queries read from; everything is scoped to one organization. A read that `signal` ends goes on nowhere.
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
  /** The ids of those that are stored. @param keys at most a few hundred */
  existing(orgId: string, keys: readonly EventKey[]): Promise<ReadonlySet<string>>;
  /** The ids of those that a fan-out is stored of. @param keys at most a few hundred */
  fannedOut(orgId: string, keys: readonly EventKey[]): Promise<ReadonlySet<string>>;
  attempts(orgId: string, key: EventKey): Promise<readonly StoredAttempt[]>;
  outcomes(orgId: string, key: EventKey): Promise<EventOutcomes>;
  /** No entry for an event that was never fanned out. */
  summaries(
    orgId: string,
    keys: readonly EventKey[],
  ): Promise<ReadonlyMap<string, DeliverySummary>>;
}

/**
 * `query_limit`: a time, row or memory limit was hit; `store_busy`: its turn did not come in time; `store_unavailable`: no answer;
 * `store_refused`: a bug or a wrong schema.
 */
export class EventStoreError extends Error {
  readonly code: "query_limit" | "store_busy" | "store_unavailable" | "store_refused";
  constructor(code: EventStoreError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "EventStoreError";
    this.code = code;
  }
}
