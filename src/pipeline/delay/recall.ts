import type { Clock } from "../../domain/clock.ts";
import type { DestinationConfig, Lookup } from "../../domain/destination.ts";
import type { Logger } from "../../domain/logger.ts";
import type { TierForwarder } from "./tier-forwarder.ts";

type MaybeLater<T> = T | Promise<T>;

/** What is known of the destinations that tasks wait for. */
export interface DelayedDestinations {
  /** Tells of an endpoint (`destinationId` null) or one of its destinations that changed or went away. The result ends it. */
  onChange(
    listener: (changed: {
      readonly endpointId: string;
      readonly destinationId: string | null;
    }) => void,
  ): () => void;
  destinationsOf(endpointId: string): MaybeLater<Lookup<readonly DestinationConfig[]>>;
  destination(id: string): MaybeLater<Lookup<DestinationConfig>>;
}

export interface RecallPorts {
  readonly destinations: DelayedDestinations;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Those that tasks of the endpoint wait in, as far as they are owned. */
  readonly tiersOf: (endpointId: string) => readonly TierForwarder[];
}

/** By then the other processes have heard of it as well; and a try that was in flight may have put the next one off meanwhile. */
const AFTER_MS = [1_000, 30_000];

/**
 * Lets tasks of deleted destinations go on soon: they would wait for their time, up to a day, only to end `dead`. What is
 * missed here (nobody owned the partition at that moment, or the configuration was away) ends at its time.
 */
export class Recall {
  readonly #ports: RecallPorts;
  readonly #endpoints = new Set<string>();
  readonly #timers = new Set<() => void>();
  #isRunning = false;
  #stopListening: (() => void) | null = null;
  #isStopped = false;

  constructor(ports: RecallPorts) {
    this.#ports = ports;
  }

  start(): void {
    this.#stopListening = this.#ports.destinations.onChange(({ endpointId, destinationId }) => {
      void this.#isGone(endpointId, destinationId).then((isGone) => {
        if (isGone && !this.#isStopped)
          for (const afterMs of AFTER_MS) this.#recallAfter(afterMs, endpointId);
      });
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopListening?.();
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
  }

  #recallAfter(afterMs: number, endpointId: string): void {
    const cancel = this.#ports.clock.schedule(afterMs, () => {
      this.#timers.delete(cancel);
      this.#endpoints.add(endpointId);
      if (!this.#isRunning) void this.#run();
    });
    this.#timers.add(cancel);
  }

  /** One after the other: each reads all that waits in the tiers of a partition. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    for (const endpointId of this.#endpoints) {
      this.#endpoints.delete(endpointId);
      for (const tier of this.#ports.tiersOf(endpointId))
        try {
          await tier.recall(endpointId, (destinationId) => this.#isGone(endpointId, destinationId));
        } catch (error) {
          this.#ports.logger.warn({ endpointId, err: error }, "delay.recall_failed");
        }
    }
    this.#isRunning = false;
  }

  async #isGone(endpointId: string, destinationId: string | null): Promise<boolean> {
    const { destinations } = this.#ports;
    const lookup =
      destinationId === null
        ? await destinations.destinationsOf(endpointId)
        : await destinations.destination(destinationId);
    return lookup.kind === "missing";
  }
}
