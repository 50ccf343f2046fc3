import { setTimeout as sleep } from "node:timers/promises";
import { TIMERS } from "../../../domain/clock.ts";
import { LogError } from "../../../domain/log.ts";
import { within } from "../../../domain/within.ts";
import { partitionName } from "../partition-name.ts";
import { codeOfBroker, isFenced, isTopicDeleted, REBALANCING } from "./coordinator-errors.ts";
import type { Coordinator } from "./current-coordinator.ts";

/** A commit of one partition, as the coordinator takes it. */
export interface WireCommit {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

export interface OffsetCommitsPorts {
  /** The one that answers heartbeats; null before the first join. */
  readonly coordinator: () => Coordinator | null;
  /** Looks it up anew. */
  readonly findCoordinator: () => Promise<Coordinator>;
  readonly monotonic: () => number;
  /** Returns false once nothing may be committed for this generation any more. */
  readonly isOpen: (generation: number) => boolean;
  readonly memberId: () => string;
  /** Told of each commit that was kept, and when it was sent. */
  readonly onKept: (generation: number, sentMs: number, coordinator: Coordinator) => void;
  /** There was nothing to repeat: of no commit of this generation it is known whether it was kept. */
  readonly onNoneKnown: (generation: number) => void;
  /** The coordinator does not know this member any more, or not in this generation. */
  readonly onFenced: (generation: number) => void;
  /** A topic was deleted: repeated once it is made anew, a commit would pass over its first records. */
  readonly onTopicDeleted: (generation: number) => void;
}

const COMMIT_TRIES = 5;
const COMMIT_RETRY_MS = 200;
/** Whoever commits tries again, or is about to end; brokers that are gone would be asked for a minute and more. */
const COMMIT_TIMEOUT_MS = 3_000;

/** Writes what the owners of partitions commit, one request at a time. */
export class OffsetCommits {
  readonly #groupId: string;
  readonly #ports: OffsetCommitsPorts;
  #queued: { entries: WireCommit[]; generation: number; done: Promise<void> } | null = null;
  #flushing: Promise<void> = Promise.resolve();
  /** What stands in the current generation, by partition; null where it is not known whether the last commit was kept. */
  #standing = new Map<string, WireCommit | null>();
  #generation = -1;
  #repeating = false;

  constructor(groupId: string, ports: OffsetCommitsPorts) {
    this.#groupId = groupId;
    this.#ports = ports;
  }

  /**
   * Commits for one generation; commits made close together share a request. Fenced ones are ignored.
   * @throws {LogError} also if it is not known to be done in time: it may still be, but never after a later one
   */
  async commit(entries: readonly WireCommit[], generation: number): Promise<void> {
    const written = this.#enqueue(entries, generation);
    await within(written, COMMIT_TIMEOUT_MS, refuseLate, TIMERS);
  }

  /** Forgets what stood before. */
  begin(generation: number): void {
    this.#generation = generation;
    this.#standing = new Map();
  }

  /** Notes what was found committed, which stands unless this generation has committed since. */
  found(entries: readonly WireCommit[], generation: number): void {
    if (generation !== this.#generation) return;
    for (const entry of entries) {
      const name = nameOf(entry);
      if (!this.#standing.has(name)) this.#standing.set(name, entry);
    }
  }

  /**
   * Commits once more what stands, if nothing else is to be committed by then: that it is kept shows that the coordinator still is the
   * group's. Repeats the lowest offset, which does no harm to a topic that is made anew at this moment. Never rejects.
   */
  repeat(generation: number): void {
    if (this.#repeating) return;
    this.#repeating = true;
    const repeated = this.#enqueue([], generation).catch(() => undefined);
    void repeated.then(() => {
      this.#repeating = false;
    });
  }

  #lowestStanding(): readonly WireCommit[] {
    let lowest: WireCommit | null = null;
    for (const entry of this.#standing.values())
      if (entry !== null && (lowest === null || entry.offset < lowest.offset)) lowest = entry;
    return lowest === null ? [] : [lowest];
  }

  #enqueue(entries: readonly WireCommit[], generation: number): Promise<void> {
    if (this.#queued !== null && this.#queued.generation === generation) {
      this.#queued.entries.push(...entries);
      return this.#queued.done;
    }
    const batch = { entries: [...entries], generation, done: Promise.resolve() };
    this.#queued = batch;
    batch.done = this.#flushing.then(() => {
      if (this.#queued === batch) this.#queued = null;
      return this.#write(batch.entries, generation);
    });
    this.#flushing = batch.done.catch(() => undefined);
    return batch.done;
  }

  async #write(given: readonly WireCommit[], generation: number): Promise<void> {
    const isRepeat = given.length === 0;
    const entries = isRepeat ? this.#lowestStanding() : given;
    if (entries.length === 0) {
      this.#ports.onNoneKnown(generation);
      return;
    }
    const topics = byTopic(entries);
    for (let attempt = 1; ; attempt += 1) {
      if (!this.#ports.isOpen(generation)) return;
      try {
        const known = attempt === 1 ? this.#ports.coordinator() : null;
        const coordinator = known ?? (await this.#ports.findCoordinator());
        const sentMs = this.#ports.monotonic();
        // What is repeated stands, whether it is kept this time or not.
        if (!isRepeat) this.#note(entries, generation, false);
        await coordinator.offsetCommit({
          groupId: this.#groupId,
          memberId: this.#ports.memberId(),
          groupGenerationId: generation,
          retentionTime: -1,
          topics,
        });
        this.#note(entries, generation, true);
        this.#ports.onKept(generation, sentMs, coordinator);
        return;
      } catch (error) {
        if (isFenced(error)) {
          if (codeOfBroker(error) !== REBALANCING) this.#ports.onFenced(generation);
          return;
        }
        const isDeleted = isTopicDeleted(error);
        if (isDeleted) this.#ports.onTopicDeleted(generation);
        if (isDeleted || attempt >= COMMIT_TRIES)
          throw new LogError("log_unavailable", "offsets could not be committed", { cause: error });
        await sleep(COMMIT_RETRY_MS * attempt);
      }
    }
  }

  #note(entries: readonly WireCommit[], generation: number, isKept: boolean): void {
    if (generation !== this.#generation) return;
    for (const entry of entries) this.#standing.set(nameOf(entry), isKept ? entry : null);
  }
}

function nameOf({ topic, partition }: WireCommit): string {
  return partitionName(topic, partition);
}

/** Returns the commits as a request holds them; of several for one partition, the last one counts. */
function byTopic(entries: readonly WireCommit[]) {
  const topics = new Map<string, Map<number, WireCommit>>();
  for (const entry of entries) {
    const partitions = topics.get(entry.topic) ?? new Map<number, WireCommit>();
    topics.set(entry.topic, partitions.set(entry.partition, entry));
  }
  return [...topics].map(([topic, partitions]) => ({
    topic,
    partitions: [...partitions.values()].map(({ partition, offset, metadata }) => ({
      partition,
      offset: String(offset),
      metadata,
    })),
  }));
}

function refuseLate(): never {
  throw new LogError("log_unavailable", "offsets could not be committed in time");
}
