import type { Clock } from "../../domain/clock.ts";
import type { Lookup } from "../../domain/destination.ts";
import type { EndpointConfig } from "../../domain/endpoint.ts";
import type { NewRecord, Position } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { VerificationRequest, VerificationResult } from "../../domain/verification.ts";
import type { OutcomeKind, UnavailableCause } from "./outcome.ts";

export type Verdict = VerificationResult | "unavailable";

export interface IngestPorts {
  /** Synchronous on a hit: the fast path makes no promise. */
  readonly endpointByToken: (
    token: string,
  ) => Lookup<EndpointConfig> | Promise<Lookup<EndpointConfig>>;
  /** Synchronous when done on the loop. */
  readonly verify: (request: VerificationRequest) => Verdict | Promise<Verdict>;
  /** Durable when resolved. @throws {LogError} which tells what is durable nevertheless */
  readonly append: (records: readonly NewRecord[]) => Promise<readonly Position[]>;
  /** `evt_` + ULID whose time is `timeMs`. */
  readonly newEventId: (timeMs: number) => string;
  readonly clock: Clock;
  /** Once this turn of the event loop is through, such as `setImmediate`. */
  readonly defer: (callback: () => void) => void;
  readonly metrics: IngestMetrics;
  readonly logger: Logger;
}

export interface IngestMetrics {
  /** One request was answered; `seconds` from its head to its answer. */
  answered(outcome: OutcomeKind, seconds: number): void;
  /** Why a request was answered 503. */
  refused(cause: UnavailableCause): void;
  /** One append returned; `failure` is the log's error code, null when all of it is durable. */
  appended(seconds: number, records: number, failure: string | null): void;
}

export interface IngestOptions {
  /** What URL-signing providers signed starts with this; no trailing slash. */
  readonly publicBaseUrl: string;
  readonly maxPayloadBytes: number;
  /** Requests per second and endpoint; 0 is off. */
  readonly rateLimitPerSecond: number;
  /** CIDRs whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[];
  /** In flight, from head to answer. */
  readonly maxRequestsInFlight: number;
  readonly maxBytesInFlight: number;
  /** How long the verdict, and then the log, may take before 503. */
  readonly deadlineMs: number;
}

export const INGEST_DEFAULTS = {
  maxRequestsInFlight: 20_000,
  maxBytesInFlight: 256 * 1024 * 1024,
  deadlineMs: 3_500,
} as const;
