import type { Clock, Random } from "../../domain/clock.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { AttemptStatus } from "../../domain/enums.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { Log, NewRecord, Position, Topic, Urgency } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { OutcomeRecord } from "../../domain/outcome.ts";

export interface SignedRequest {
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** The result of one request; a sender that throws counts as an `error` reply as well. */
export type Reply =
  | {
      readonly kind: "response";
      readonly status: number;
      readonly retryAfter: string | null;
      /** The part of the body that was read, decoded. Where it is not UTF-8, this may be longer than what is stored. */
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
  /** Counts the end of a try; `seconds` is how long its request took, null if none was made. */
  attempted(status: AttemptStatus, seconds: number | null): void;
  deferred(reason: DeferralReason): void;
  /** Counts a redelivered task whose end (or successor) is already in the log. */
  droppedDuplicate(): void;
  /** Counts a record that cannot be read and is left out. */
  unreadable(topic: Topic): void;
  /** Counts one more (+1) or one fewer (−1) destination with an open circuit. */
  openCircuits(change: 1 | -1): void;
  inFlight(count: number): void;
  /** Reports the deliveries that wait in lanes, across all partitions, and the bytes of records that are not complete. */
  queued(deliveries: number, bytes: number): void;
  held(change: number): void;
}

/** What fan-out decided for one event: the outcome to record, and the tries to make. */
export interface FanoutPlan {
  readonly outcome: OutcomeRecord;
  readonly tasks: readonly DeliveryTask[];
}

/** Durable appends that ride out an unavailable log: see `pipeline/attempts`. */
export interface DurableAppender {
  /**
   * Resolves with the positions once all records are durable; retries while the log is unavailable. Resolves with null if
   * `stillNeeded` returned false before that. `urgency` defaults to `now`.
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
  /** Returns the endpoint's destinations that are not deleted, whatever their status. Synchronous on a cache hit. */
  readonly destinationsOf: (endpointId: string) => MaybeLater<Lookup<readonly DestinationConfig[]>>;
  /** Returns `missing` for a deleted destination. Synchronous on a cache hit. */
  readonly destination: (destinationId: string) => MaybeLater<Lookup<DestinationConfig>>;
  /** Calls back for each destination whose configuration may have changed; returns a function that stops it. */
  readonly onDestinationChanged: (listener: (destinationId: string) => void) => () => void;
  /** Disables the destination (with an audit row) after a 410 to a try begun at `triedAtMs`, unless it has been changed since. */
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
  /** Makes the request. `onSent` is called when it goes out on a connection: limits count from then. */
  readonly send: (
    request: SignedRequest,
    signal: AbortSignal,
    onSent: () => void,
  ) => Promise<Reply>;
  /** Returns the value of `webhook-signature` (Standard Webhooks), with one signature per secret. */
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
  /** The timeout of one whole try. The sender enforces it; here it is only used in calculations. */
  readonly deliveryTimeoutMs: number;
  /** Maximum tries in flight per destination. */
  readonly concurrency: number;
  readonly retentionMs: number;
  /**
   * The wait between an assignment and its first try if the last owner left no marker: that owner's tries in flight end
   * meanwhile. 0 if there is only one owner.
   */
  readonly takeoverWaitMs: number;
  /** Maximum tries in flight in this process. */
  readonly maxInFlight: number;
  /** Maximum tries in flight to one receiver URL, however many destinations share it: the sender's connections. */
  readonly connectionsPerReceiver: number;
  /**
   * Maximum bytes of records taken in and not complete, whole process; a partition takes at most a quarter. One record counts
   * for at most a third of either.
   */
  readonly maxPendingBytes: number;
  /** Maximum bytes waiting in one lane; at most half as many are in flight. A single body may always exceed this. */
  readonly laneBytes: number;
  readonly commitIntervalMs: number;
  /** How often held destinations are checked without a change notice; at most 60 s. */
  readonly heldSweepMs: number;
  /** How long a graceful stop waits for tries in flight. */
  readonly stopGraceMs: number;
  readonly breaker: BreakerOptions;
}

export interface BreakerOptions {
  /** The weight of consecutive failures that opens the circuit: a failure weighs 1, a timeout 4. */
  readonly failures: number;
  /** The failures must also span this long: the retries of a single event must not open it. */
  readonly minStreakMs: number;
  /**
   * Alternatively, failed first tries and the start times of their runs must both span this long: new runs that keep failing
   * show sooner than retries do that the receiver is down.
   */
  readonly minNewRunsMs: number;
  readonly openMs: number;
  /** The pause doubles after each failed probe, up to this. */
  readonly maxOpenMs: number;
}

/** How long until a task that lacks its configuration asks for it again; each task of a lane gets a slot of its own. */
export const CONFIG_RETRY_MS = 5_000;

/** Returns that wait for tasks outside a lane: up to twice as long, so that they do not all come back at once. */
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
