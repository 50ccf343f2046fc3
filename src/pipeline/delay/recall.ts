import { pause } from "../../domain/clock.ts";
import type { Clock } from "../../domain/clock.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { Logger } from "../../domain/logger.ts";
import { rateWindowMs } from "../../domain/rate-limit.ts";
import type { TierForwarder } from "./tier-forwarder.ts";
import { inAllTiers } from "./waiting-tasks.ts";
import type { LimitedTasks, WaitingTasks } from "./waiting-tasks.ts";

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
/** Changes often come many at a time. */
const GATHER_MS = 500;
/** Between two looks, in times of what the first has taken: each reads all that waits. */
const REST_FACTOR = 9;
/** Tasks of a limit have slots behind one another: those that reach further than this were given by a limit that was lower. */
const FURTHER_THAN_NEEDED = 1.5;
const SOON_MS = 5_000;

/**
 * Lets tasks go on soon that would wait for nothing: those of deleted destinations, for up to a day, only to end `dead`; and those
 * that a rate limit put off which has been raised or removed since, for as long as it would have taken. What is missed here
 * (nobody owned the partition at that moment, or the configuration was away) goes on at its time.
 */
export class Recall {
  readonly #ports: RecallPorts;
  readonly #endpoints = new Set<string>();
  readonly #timers = new Set<() => void>();
  #isRunning = false;
  #restsUntilMs = 0;
  #stopListening: (() => void) | null = null;
  #isStopped = false;

  constructor(ports: RecallPorts) {
    this.#ports = ports;
  }

  start(): void {
    this.#stopListening = this.#ports.destinations.onChange(({ endpointId, destinationId }) => {
      const worthIt =
        destinationId === null
          ? this.#isEndpointDeleted(endpointId)
          : this.#mayRecall(destinationId);
      void worthIt.then((isWorthIt) => {
        if (isWorthIt && !this.#isStopped)
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
    const { clock, logger } = this.#ports;
    this.#isRunning = true;
    while (this.#endpoints.size > 0 && !this.#isStopped) {
      await pause(clock, Math.max(GATHER_MS, this.#restsUntilMs - clock.monotonic()));
      const endpointIds = new Set(this.#endpoints);
      this.#endpoints.clear();
      const startedMs = clock.monotonic();
      try {
        await this.#recallOf(endpointIds);
      } catch (error) {
        logger.warn({ endpoints: endpointIds.size, err: error }, "delay.recall_failed");
      }
      const endedMs = clock.monotonic();
      this.#restsUntilMs = endedMs + REST_FACTOR * (endedMs - startedMs);
    }
    this.#isRunning = false;
  }

  async #recallOf(endpointIds: ReadonlySet<string>): Promise<void> {
    const tiers = new Set([...endpointIds].flatMap((id) => this.#ports.tiersOf(id)));
    const surveys = new Map<TierForwarder, ReadonlyMap<string, WaitingTasks>>();
    for (const tier of tiers) surveys.set(tier, await tier.survey(endpointIds));
    const gone = new Set<string>();
    const sooner = new Set<string>();
    for (const [destinationId, waiting] of inAllTiers(surveys.values())) {
      const lookup = await this.#ports.destinations.destination(destinationId);
      if (lookup.kind === "missing") gone.add(destinationId);
      if (lookup.kind === "found" && this.#waitsForNothing(lookup.value, waiting))
        sooner.add(destinationId);
    }
    for (const [tier, found] of surveys) {
      const offsets = [...found]
        .filter(([id, { limited }]) => gone.has(id) || (limited > 0 && sooner.has(id)))
        .map(([, { lastOffset }]) => lastOffset);
      if (offsets.length > 0) await tier.recall({ gone, sooner }, Math.max(...offsets));
    }
  }

  #waitsForNothing(config: DestinationConfig, { limited, limitedUntilMs }: LimitedTasks): boolean {
    const { rateLimitMax: max, rateLimitWindow: window } = config;
    const windowMs = window === null ? 0 : rateWindowMs(window);
    const neededMs = max === null ? 0 : (limited / max) * windowMs;
    const waitsMs = limitedUntilMs - this.#ports.clock.now();
    return waitsMs > FURTHER_THAN_NEEDED * neededMs + windowMs + SOON_MS;
  }

  async #isEndpointDeleted(endpointId: string): Promise<boolean> {
    return (await this.#ports.destinations.destinationsOf(endpointId)).kind === "missing";
  }

  /** It was deleted, or its limit may have been raised. */
  async #mayRecall(destinationId: string): Promise<boolean> {
    const lookup = await this.#ports.destinations.destination(destinationId);
    return lookup.kind === "missing" || (lookup.kind === "found" && isActive(lookup.value));
  }
}

function isActive({ status }: DestinationConfig): boolean {
  return status === "active";
}
