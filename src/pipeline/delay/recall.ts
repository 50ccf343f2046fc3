import { pause } from "../../domain/clock.ts";
import type { Clock } from "../../domain/clock.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { Logger } from "../../domain/logger.ts";
import type { TierForwarder } from "./tier-forwarder.ts";

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
const AFTER_MS = [500, 30_000];
/** Deletions often come many at a time. */
const GATHER_MS = 500;

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
      const lookup =
        destinationId === null
          ? this.#isEndpointDeleted(endpointId)
          : this.#isDeleted(destinationId);
      void lookup.then((isGone) => {
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

  /** All that wait together: each tier is read once for them, with all that waits in it. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#endpoints.size > 0 && !this.#isStopped) {
      await pause(this.#ports.clock, GATHER_MS);
      const byTier = new Map<TierForwarder, Set<string>>();
      for (const endpointId of this.#endpoints)
        for (const tier of this.#ports.tiersOf(endpointId))
          byTier.set(tier, (byTier.get(tier) ?? new Set()).add(endpointId));
      this.#endpoints.clear();
      for (const [tier, endpointIds] of byTier)
        try {
          await tier.recall(endpointIds, (destinationId) => this.#isDeleted(destinationId));
        } catch (error) {
          this.#ports.logger.warn(
            { endpoints: endpointIds.size, err: error },
            "delay.recall_failed",
          );
        }
    }
    this.#isRunning = false;
  }

  async #isEndpointDeleted(endpointId: string): Promise<boolean> {
    return (await this.#ports.destinations.destinationsOf(endpointId)).kind === "missing";
  }

  async #isDeleted(destinationId: string): Promise<boolean> {
    return (await this.#ports.destinations.destination(destinationId)).kind === "missing";
  }
}
