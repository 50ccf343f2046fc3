import { pause } from "../../domain/clock.ts";
import { isOwnershipOver } from "../../domain/log.ts";
import { mayGoSooner, paceOf } from "../../domain/rate-limit.ts";
import type { LimitPace } from "../../domain/rate-limit.ts";
import { KnownDestinations } from "./known-destinations.ts";
import type { ChangeEffect } from "./known-destinations.ts";
import type { DelayPorts } from "./ports.ts";
import type { TierForwarder } from "./tier-forwarder.ts";
import { inAllTiers, isRecalled } from "./waiting-tasks.ts";
import type { WaitingTasks } from "./waiting-tasks.ts";

export interface RecallPorts extends Pick<DelayPorts, "destinations" | "clock" | "logger"> {
  readonly partitionOf: (endpointId: string) => number;
  readonly ownedPartitions: () => readonly number[];
  /** Returns none if the partition is not owned. */
  readonly tiersOf: (partition: number) => readonly TierForwarder[];
}

/** What is looked at, and why. */
interface Look {
  /** The endpoints whose tasks are looked at, by partition; null: all. */
  readonly endpoints: Map<number, ReadonlySet<string> | null>;
  /** Destinations that have another receiver or were resumed. */
  readonly mended: Set<string>;
}
type LookEntries = Iterable<readonly [partition: number, endpointIds: Iterable<string> | null]>;

/**
 * When to look after a change: once the other processes have heard of it, and again, since a try in flight may have put the
 * next one off meanwhile.
 */
const AFTER_MS = [500, 30_000];
/** How long after the last assignment to look: partitions may move many times in a row. */
const AFTER_ASSIGNMENT_MS = 30_000;
/** The wait after a look that failed or had to leave something; it doubles each time. */
const FIRST_AGAIN_MS = 30_000;
const LAST_AGAIN_MS = 1_800_000;
/** Changes often come many at a time. */
const GATHER_MS = 500;
/** The rest between two looks, as a multiple of the time the first spent reading: each reads everything that waits. */
const REST_FACTOR = 9;
const MAX_REST_MS = 30_000;
/** Tasks due within this time need no recall. */
const SOON_MS = 5_000;

/**
 * Lets tasks go on soon that would wait for nothing:
 *
 * - those of deleted destinations, for up to a day, only to end `dead`;
 * - those put off by a rate limit that has since been raised, removed or given a shorter window, for as long as the old one would
 *   have taken;
 * - those put off because their receiver failed or hung, for minutes, when the destination is given another one or is resumed.
 *
 * A new owner looks for all three in everything that waits: the partition may have had no owner at the change, or one that got
 * only half way. So does an owner that may have missed changes.
 */
export class Recall {
  readonly #ports: RecallPorts;
  #look = emptyLook();
  readonly #assigned = new Set<number>();
  #cancelAssigned: (() => void) | null = null;
  /** Partitions with waiting tasks whose endpoints have their home elsewhere, since the log has grown. */
  readonly #withStrays = new Set<number>();
  readonly #timers = new Set<() => void>();
  #isRunning = false;
  #restsUntilMs = 0;
  #againMs = FIRST_AGAIN_MS;
  readonly #known = new KnownDestinations();
  readonly #stopListening: (() => void)[] = [];
  readonly #stopped = new AbortController();

  constructor(ports: RecallPorts) {
    this.#ports = ports;
  }

  start(): void {
    const { destinations, ownedPartitions } = this.#ports;
    const stopOfChanges = destinations.onChange(({ endpointId, destinationId }) => {
      void this.#effectOf(endpointId, destinationId).then(({ mayRecall, isMended }) => {
        if (!mayRecall || this.#isStopped) return;
        const mended = isMended && destinationId !== null ? [destinationId] : [];
        for (const afterMs of AFTER_MS)
          this.#lookAfter(afterMs, this.#whereMayWait(endpointId), mended);
      });
    });
    const stopOfGaps = destinations.onGap(() => {
      for (const afterMs of AFTER_MS) this.#lookAfter(afterMs, ownedPartitions().map(ofAll));
    });
    this.#stopListening.push(stopOfChanges, stopOfGaps);
  }

  onAssigned(partition: number): void {
    if (this.#isStopped) return;
    this.#assigned.add(partition);
    this.#cancelAssigned?.();
    this.#cancelAssigned = this.#ports.clock.schedule(AFTER_ASSIGNMENT_MS, () => {
      this.#add(Array.from(this.#assigned, ofAll));
      this.#assigned.clear();
    });
  }

  stop(): void {
    this.#stopped.abort();
    for (const stop of this.#stopListening) stop();
    this.#cancelAssigned?.();
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
  }

  #whereMayWait(endpointId: string): LookEntries {
    const partitions = new Set([this.#ports.partitionOf(endpointId), ...this.#withStrays]);
    return Array.from(partitions, (partition) => [partition, [endpointId]]);
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  #lookAfter(afterMs: number, more: LookEntries, mended: Iterable<string> = []): void {
    const cancel = this.#ports.clock.schedule(afterMs, () => {
      this.#timers.delete(cancel);
      this.#add(more, mended);
    });
    this.#timers.add(cancel);
  }

  #add(more: LookEntries, mended: Iterable<string> = []): void {
    const { endpoints } = this.#look;
    for (const [partition, endpointIds] of more) {
      const known = endpoints.get(partition);
      const isOfAll = endpointIds === null || known === null;
      endpoints.set(partition, isOfAll ? null : new Set([...(known ?? []), ...endpointIds]));
    }
    for (const destinationId of mended) this.#look.mended.add(destinationId);
    if (!this.#isRunning) void this.#run();
  }

  /** Runs all gathered looks together: each tier is read once for them, with everything that waits in it. */
  async #run(): Promise<void> {
    const { clock } = this.#ports;
    this.#isRunning = true;
    while (this.#look.endpoints.size > 0 && !this.#isStopped) {
      const restMs = Math.max(GATHER_MS, this.#restsUntilMs - clock.monotonic());
      await pause(clock, restMs, this.#stopped.signal);
      if (this.#isStopped) break;
      const look = this.#look;
      this.#look = emptyLook();
      if (await this.#tryRecall(look)) this.#againMs = FIRST_AGAIN_MS;
      else if (!this.#isStopped) {
        this.#lookAfter(this.#againMs, look.endpoints, look.mended);
        this.#againMs = Math.min(LAST_AGAIN_MS, 2 * this.#againMs);
      }
    }
    this.#isRunning = false;
  }

  /** Recalls what a look finds. Resolves with false if that has to be tried again. */
  async #tryRecall(look: Look): Promise<boolean> {
    try {
      return await this.#recall(look);
    } catch (error) {
      if (!isOwnershipOver(error))
        this.#ports.logger.warn(
          { partitions: [...look.endpoints.keys()], err: error },
          "delay.recall_failed",
        );
      return false;
    }
  }

  /** Resolves with false if the configuration of some destinations could not be learnt, or ownership was in doubt. */
  async #recall(look: Look): Promise<boolean> {
    const surveys = await this.#survey(look);
    const soonMs = this.#ports.clock.now() + SOON_MS;
    // Who looks at all endpoints may have missed changes: what has changed since tasks were put off may be mended.
    const mayHaveMissed = [...look.endpoints.values()].includes(null);
    let isComplete = true;
    const gone = new Set<string>();
    const sooner = new Map<string, LimitPace>();
    const mended = new Set<string>();
    for (const [destinationId, waiting] of inAllTiers(surveys.values())) {
      const lookup = await this.#ports.destinations.destination(destinationId);
      if (lookup.kind === "unavailable") isComplete = false;
      if (lookup.kind === "missing") gone.add(destinationId);
      if (lookup.kind !== "found") continue;
      const pace = paceOf(lookup.value);
      if (waiting.limitedUntilMs > soonMs && mayGoSooner(pace, waiting.slowest))
        sooner.set(destinationId, pace);
      const mayBeMended =
        look.mended.has(destinationId) ||
        (mayHaveMissed && lookup.value.updatedAtMs > waiting.receiverSinceMs);
      if (waiting.receiverUntilMs > soonMs && mayBeMended) mended.add(destinationId);
    }
    const recalled = { gone, sooner, mended };
    for (const [tier, found] of surveys) {
      const offsets = [...found]
        .filter(([id, waiting]) => isRecalled(id, waiting, recalled))
        .map(([, { lastOffset }]) => lastOffset);
      if (offsets.length === 0) continue;
      if (!(await tier.recall(recalled, Math.max(...offsets)))) isComplete = false;
    }
    return isComplete;
  }

  async #survey(
    look: Look,
  ): Promise<ReadonlyMap<TierForwarder, ReadonlyMap<string, WaitingTasks>>> {
    const { clock, partitionOf, tiersOf } = this.#ports;
    const startedMs = clock.monotonic();
    const surveys = new Map<TierForwarder, ReadonlyMap<string, WaitingTasks>>();
    for (const [partition, endpointIds] of look.endpoints)
      for (const tier of tiersOf(partition)) {
        const found = await tier.survey(endpointIds);
        surveys.set(tier, found);
        for (const { endpointId } of found.values())
          if (partitionOf(endpointId) !== partition) this.#withStrays.add(partition);
      }
    const readAtMs = clock.monotonic();
    this.#restsUntilMs = readAtMs + Math.min(MAX_REST_MS, REST_FACTOR * (readAtMs - startedMs));
    return surveys;
  }

  /**
   * Resolves with what a change may do. A destination that was deleted lets its tasks go; one that cannot be learnt of now may have
   * been, and the look asks again.
   */
  async #effectOf(endpointId: string, destinationId: string | null): Promise<ChangeEffect> {
    const { destinations } = this.#ports;
    if (destinationId === null) {
      const isDeleted = (await destinations.destinationsOf(endpointId)).kind !== "found";
      return { mayRecall: isDeleted, isMended: false };
    }
    const lookup = await destinations.destination(destinationId);
    if (lookup.kind !== "found") return { mayRecall: true, isMended: false };
    return this.#known.learn(lookup.value);
  }
}

function emptyLook(): Look {
  return { endpoints: new Map(), mended: new Set() };
}

function ofAll(partition: number): readonly [partition: number, endpointIds: null] {
  return [partition, null];
}
