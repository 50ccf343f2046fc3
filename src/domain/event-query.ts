import type { AttemptStatus, Provider } from "./enums.ts";
import type { EventRecord } from "./event.ts";

/** Filters of `GET /events` and the facets; all are and-ed. Every query is scoped to one organization. */
export interface EventFilter {
  readonly endpointId?: string;
  readonly provider?: Provider;
  readonly signatureValid?: boolean;
  /** Inclusive. */
  readonly fromMs?: number;
  /** Exclusive. */
  readonly toMs?: number;
  readonly q?: string;
  /** Dotted path, with `value`. */
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

/** In events, newest first. */
export interface PageRange {
  readonly offset: number;
  readonly limit: number;
}

/**
 * The read side that the API uses. What nobody waits for any more is ended by `signal`, in the store as well.
 * @throws {RelayError} `unavailable` when the store is down, a query hits its limit, or `signal` ends it
 */
export interface EventQueries {
  list(
    orgId: string,
    filter: EventFilter,
    range: PageRange,
    withSummary: boolean,
    signal?: AbortSignal,
  ): Promise<{ readonly items: readonly EventListItem[]; readonly total: number }>;
  facets(orgId: string, filter: EventFilter, signal?: AbortSignal): Promise<FacetCounts>;
  /** Waits up to 2 s for an id younger than 10 s. Null when unknown, or another organization's. */
  detail(orgId: string, eventId: string): Promise<EventDetail | null>;
  /** The stored event alone, for replays; same waiting. */
  event(orgId: string, eventId: string): Promise<EventRecord | null>;
  attempts(orgId: string, eventId: string): Promise<readonly AttemptView[] | null>;
}
