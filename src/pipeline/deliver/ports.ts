import type { Clock, Random } from "../../domain/clock.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { AttemptStatus } from "../../domain/enums.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { Log, NewRecord, Position, Urgency } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { OutcomeRecord } from "../../domain/outcome.ts";

export interface SignedRequest {
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** What came of one request. Never a rejection: a sender that throws is an error reply as well. */
export type Reply =
  | {
      readonly kind: "response";
      readonly status: number;
      readonly retryAfter: string | null;
      /** What was read of the answer, decoded; more than is stored where it is no UTF-8. */
      readonly body: string;
      readonly latencyMs: number;
    }
  | { readonly kind: "timeout"; readonly reason: string; readonly latencyMs: number }
  | { readonly kind: "error"; readonly reason: string; readonly latencyMs: number };

/** Why a task was put off without a request. */
export type DeferralReason =
  | "rate_limit"
  | "lane_full"
  | "circuit_open"
  | "paused"
  | "config_unavailable"
  | "early";

export interface DeliverMetrics {
  /** The end of a try; `seconds` of its request, null where none was made. */
  attempted(status: AttemptStatus, seconds: number | null): void;
  deferred(reason: DeferralReason): void;
  /** A redelivered task whose end (or successor) is already in the log. */
  droppedDuplicate(): void;
  /** One more (+1) or fewer (−1) destinations whose circuit is open. */
  openCircuits(change: 1 | -1): void;
  inFlight(count: number): void;
  /** Deliveries that wait in lanes, all partitions together, and bytes of records that are not complete. */
  queued(deliveries: number, bytes: number): void;
  held(change: number): void;
}

/** What fan-out decided for one event: the outcome to record, and the tries to make. */
export interface FanoutPlan {
  readonly outcome: OutcomeRecord;
  readonly tasks: readonly DeliveryTask[];
}

/** A durable append that survives a log that is away: see `pipeline/attempts`. */
export interface DurableAppender {
  /**
   * Resolves with the positions once all records are durable; retries while the log is away.
   * Null when `stillNeeded` said no before they were. Default: wanted now.
   */
  append(
    records: readonly NewRecord[],
    stillNeeded: () => boolean,
    urgency?: Urgency,
  ): Promise<readonly Position[] | null>;
}

export interface DeliveryPorts {
  readonly log: Log;
  readonly appender: DurableAppender;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: DeliverMetrics;
  /** The endpoint's destinations that are not deleted, whatever their status. Synchronous on a cache hit. */
  readonly destinationsOf: (endpointId: string) => MaybeLater<Lookup<readonly DestinationConfig[]>>;
  /** `missing` when deleted. Synchronous on a cache hit. */
  readonly destination: (destinationId: string) => MaybeLater<Lookup<DestinationConfig>>;
  /** Calls back for each destination whose configuration may have changed; returns the way to stop. */
  readonly onDestinationChanged: (listener: (destinationId: string) => void) => () => void;
  /** The receiver answered 410 to a try begun then: disable the destination (with an audit row) unless it was changed since. */
  readonly disableDestination: (
    destinationId: string,
    receiverUrl: string,
    triedAtMs: number,
  ) => Promise<void>;
  readonly planFanout: (
    event: EventRecord,
    destinations: readonly DestinationConfig[],
    nowMs: number,
    givenTo: readonly string[] | null,
    sentTo?: Iterable<string>,
  ) => FanoutPlan;
  /** `onSent` is called when the request goes out on a connection: limits count from there. */
  readonly send: (
    request: SignedRequest,
    signal: AbortSignal,
    onSent: () => void,
  ) => Promise<Reply>;
  /** The value of `webhook-signature` (Standard Webhooks), one signature per secret. */
  readonly signDelivery: (input: {
    readonly id: string;
    readonly timestampSeconds: number;
    readonly body: Uint8Array;
    readonly secrets: readonly string[];
  }) => string;
}

export interface DeliveryOptions {
  /** Names this process in the log's `released` markers. */
  readonly ownerId: string;
  /** `user-agent` is `webhook-relay/<version>`. */
  readonly version: string;
  readonly retryBaseMs: number;
  /** Of one whole try; the sender keeps it, here it is only reckoned with. */
  readonly deliveryTimeoutMs: number;
  /** Most tries in flight per destination. */
  readonly concurrency: number;
  readonly retentionMs: number;
  /** From an assignment to its first try when the last owner left no marker: its tries in flight end meanwhile. 0 where there is one owner only. */
  readonly takeoverWaitMs: number;
  /** Most tries in flight in this process. */
  readonly maxInFlight: number;
  /** Most tries in flight to one receiver URL, however many destinations share it: the sender's connections. */
  readonly connectionsPerReceiver: number;
  /** Most bytes of records taken in and not complete, whole process; a partition takes at most a quarter. A record counts for a third at most. */
  readonly maxPendingBytes: number;
  /** Most bytes that wait in one lane, and twice the most that it has in flight; one body may always be larger. */
  readonly laneBytes: number;
  readonly commitIntervalMs: number;
  /** How often held destinations are looked at without a change notice; at most 60 s. */
  readonly heldSweepMs: number;
  /** How long a graceful stop waits for tries in flight. */
  readonly stopGraceMs: number;
  readonly breaker: BreakerOptions;
}

export interface BreakerOptions {
  /** Weight of failures in a row that opens the circuit: a failure weighs 1, a timeout 4. */
  readonly failures: number;
  /** The failures must also span this long: the retries of a single event shall not open it. */
  readonly minStreakMs: number;
  /** Or instead: failed first tries, and the times at which their runs began, must both span this long. That new runs keep failing shows sooner than retries do that the receiver is down. */
  readonly minNewRunsMs: number;
  readonly openMs: number;
  /** The pause doubles after each failed probe, up to this. */
  readonly maxOpenMs: number;
}

/** What waits for the configuration store asks again after so long: each task of a lane in a slot of its own. */
export const CONFIG_RETRY_MS = 5_000;

/** The same outside of a lane: up to twice as long, so that not all come at once. */
export function configRetryMs(random: Random): number {
  return CONFIG_RETRY_MS * (1 + random());
}

export const DEFAULT_DELIVERY_OPTIONS = {
  retryBaseMs: 30_000,
  deliveryTimeoutMs: 15_000,
  concurrency: 64,
  retentionMs: 30 * 86_400_000,
  takeoverWaitMs: 0,
  maxInFlight: 4_096,
  connectionsPerReceiver: 64,
  maxPendingBytes: 128 * 1_048_576,
  laneBytes: 16 * 1_048_576,
  commitIntervalMs: 100,
  heldSweepMs: 30_000,
  stopGraceMs: 25_000,
  breaker: {
    failures: 20,
    minStreakMs: 30_000,
    minNewRunsMs: 5_000,
    openMs: 10_000,
    maxOpenMs: 300_000,
  },
} as const satisfies Omit<DeliveryOptions, "ownerId" | "version">;
