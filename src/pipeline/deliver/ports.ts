import type { Clock, Random } from "../../domain/clock.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { AttemptStatus } from "../../domain/enums.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { DurableAppender, Log, Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { OutboundRequest, Reply } from "../../domain/outbound-request.ts";
import type { OutcomeRecord } from "../../domain/outcome.ts";

/** Why a task was put off without a request. */
export type DeferralReason =
  | "rate_limit"
  | "lane_full"
  | "circuit_open"
  | "paused"
  | "config_unavailable"
  | "early";

interface DeliverMetrics {
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
  /**
   * Makes the request. `onSent` is called when it goes out on a connection: limits count from then. A sender that throws counts
   * as an `error` reply.
   */
  readonly send: (
    request: OutboundRequest,
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
