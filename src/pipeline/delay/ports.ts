import type { Clock } from "../../domain/clock.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { DurableAppender, Log, Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";

export interface DelayPorts {
  readonly log: Log;
  readonly appender: DurableAppender;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: DelayMetrics;
  readonly destinations: DelayedDestinations;
}

interface DelayMetrics {
  forwarded(topic: Topic, count: number): void;
  /** Reports how late the head of a tier went on, in seconds. */
  lateness(seconds: number): void;
}

/** What is known of the destinations that tasks wait for. */
export interface DelayedDestinations {
  /**
   * Calls back when an endpoint (`destinationId` null) or one of its destinations changed or went away. Returns a function
   * that stops it.
   */
  onChange(
    listener: (changed: {
      readonly endpointId: string;
      readonly destinationId: string | null;
    }) => void,
  ): () => void;
  /** Calls back when any change may have been missed. Returns a function that stops it. */
  onGap(listener: () => void): () => void;
  destinationsOf(endpointId: string): MaybeLater<Lookup<readonly DestinationConfig[]>>;
  destination(id: string): MaybeLater<Lookup<DestinationConfig>>;
}
