import type { Clock } from "../../domain/clock.ts";
import type { Lookup, MaybeLater } from "../../domain/destination.ts";
import type { EndpointConfig } from "../../domain/endpoint.ts";
import type { NewRecord, Position } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { Verdict, VerificationRequest } from "../../domain/verification.ts";
import type { OutcomeKind, UnavailableCause } from "./outcome.ts";

export interface IngestPorts {
  /** Synchronous on a hit: the fast path makes no promise. */
  readonly endpointByToken: (token: string) => MaybeLater<Lookup<EndpointConfig>>;
  /** Synchronous when the request is verified inline, on the loop. */
  readonly verify: (request: VerificationRequest) => Verdict | Promise<Verdict>;
  /** Returns whether `verify` will be synchronous. */
  readonly isInline: (request: VerificationRequest) => boolean;
  /** Durable when resolved. @throws {LogError} which tells what is durable all the same */
  readonly append: (records: readonly NewRecord[]) => Promise<readonly Position[]>;
  /** `evt_` + ULID whose time is `timeMs`. */
  readonly newEventId: (timeMs: number) => string;
  readonly clock: Clock;
  /** Calls back once this turn of the event loop is over, as `setImmediate` does. */
  readonly defer: (callback: () => void) => void;
  readonly metrics: IngestMetrics;
  readonly logger: Logger;
}

export interface IngestMetrics {
  /** Counts an answered request; `seconds` from its head to its answer. */
  answered(outcome: OutcomeKind, seconds: number): void;
  /** Counts a request that was answered 503, by its cause. */
  refused(cause: UnavailableCause): void;
  /** Counts an append; `failure` is the log's error code, null when all of it is durable. */
  appended(seconds: number, records: number, failure: string | null): void;
}

export interface IngestOptions {
  /** Start of the URLs that URL-signing providers have signed; no trailing slash. */
  readonly publicBaseUrl: string;
  readonly maxPayloadBytes: number;
  /** Requests per second and endpoint; 0 is off. */
  readonly rateLimitPerSecond: number;
  /** CIDRs of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly string[];
  /** In flight, from head to answer. */
  readonly maxRequestsInFlight: number;
  readonly maxBytesInFlight: number;
  /** How long the verdict, and then the log, may each take before the answer is 503. */
  readonly deadlineMs: number;
}

export const INGEST_DEFAULTS = {
  maxRequestsInFlight: 20_000,
  maxBytesInFlight: 256 * 1024 * 1024,
  deadlineMs: 3_500,
} as const;
