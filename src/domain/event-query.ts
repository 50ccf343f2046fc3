import type { AttemptStatus, Provider } from "./enums.ts";
import type { EventRecord } from "./event.ts";

/** Filters of `GET /events` and the facets, all of which must match. Every query is scoped to one organization. */
export interface EventFilter {
  readonly endpointId?: string;
  readonly provider?: Provider;
  readonly signatureValid?: boolean;
  /** Inclusive. */
  readonly fromMs?: number;
  /** Exclusive. */
  readonly toMs?: number;
  readonly q?: string;
  /** A leaf, by its dotted path and its value. */
  readonly field?: { readonly path: string; readonly value: string };
  readonly attemptStatus?: AttemptStatus;
  readonly destinationId?: string;
}

export interface DeliverySummary {
  readonly delivered: number;
  readonly failed: number;
  readonly pending: number;
  readonly total: number;
}

export interface EventListItem {
  readonly id: string;
  readonly endpointId: string;
  readonly orgId: string;
  readonly provider: Provider;
  readonly receivedAtMs: number;
  readonly signatureValid: boolean;
  readonly verificationError: string | null;
  readonly payloadSizeBytes: number;
  /** Undefined when not asked for; null when never fanned out. */
  readonly deliverySummary?: DeliverySummary | null;
}

/** An attempt as read: with its number, counted from 1 per (event, destination) in order of time. */
export interface AttemptView {
  readonly id: string;
  readonly eventId: string;
  readonly destinationId: string;
  readonly endpointId: string;
  readonly orgId: string;
  readonly attemptedAtMs: number;
  readonly attemptNumber: number;
  readonly receiverUrl: string;
  readonly httpStatus: number;
  readonly responseBody: string;
  readonly latencyMs: number;
  readonly status: AttemptStatus;
  readonly nextRetryAtMs: number | null;
}

export interface EventDetail {
  readonly event: EventRecord;
  readonly deliverySummary: DeliverySummary | null;
  readonly attempts: readonly AttemptView[];
}

export interface FacetCounts {
  readonly totalEvents: number;
  readonly byProvider: readonly { readonly value: Provider; readonly count: number }[];
  readonly bySignatureValid: readonly { readonly value: boolean; readonly count: number }[];
  readonly byAttemptStatus: readonly { readonly value: AttemptStatus; readonly count: number }[];
}

/** A range of a list, newest first. */
export interface PageRange {
  readonly offset: number;
  readonly limit: number;
}

/** The read side that the API uses. `signal` ends a query that no one waits for any more, in the store as well. */
export interface EventQueries {
  list(
    orgId: string,
    filter: EventFilter,
    range: PageRange,
    withSummary: boolean,
    signal?: AbortSignal,
  ): Promise<{ readonly items: readonly EventListItem[]; readonly total: number }>;
  facets(orgId: string, filter: EventFilter, signal?: AbortSignal): Promise<FacetCounts>;
  /**
   * Waits up to 2 s for an id younger than 10 s. Null when the id is unknown or belongs to another organization.
   * @param beforeLarge is awaited before a large payload is read
   */
  detail(
    orgId: string,
    eventId: string,
    beforeLarge?: () => Promise<void>,
  ): Promise<EventDetail | null>;
  /** Returns the stored event alone, for replays; waits like `detail`. */
  event(orgId: string, eventId: string): Promise<EventRecord | null>;
  attempts(orgId: string, eventId: string): Promise<readonly AttemptView[] | null>;
}
