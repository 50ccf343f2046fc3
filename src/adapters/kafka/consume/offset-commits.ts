import { setTimeout as sleep } from "node:timers/promises";
import type { Broker } from "kafkajs";
import { TIMERS } from "../../../domain/clock.ts";
import { LogError } from "../../../domain/log.ts";
import { within } from "../../../domain/within.ts";
import { isFenced, isTopicDeleted } from "./coordinator-errors.ts";

/** A commit of one partition, as the coordinator takes it. */
export interface WireCommit {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

export interface OffsetCommitsPorts {
  readonly findCoordinator: () => Promise<Broker>;
  /** Returns false once nothing may be committed for this generation any more. */
  readonly isOpen: (generation: number) => boolean;
  readonly memberId: () => string;
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

  async #write(entries: readonly WireCommit[], generation: number): Promise<void> {
    const topics = byTopic(entries);
    for (let attempt = 1; ; attempt += 1) {
      if (!this.#ports.isOpen(generation)) return;
      try {
        const coordinator = await this.#ports.findCoordinator();
        await coordinator.offsetCommit({
          groupId: this.#groupId,
          memberId: this.#ports.memberId(),
          groupGenerationId: generation,
          retentionTime: -1,
          topics,
        });
        return;
      } catch (error) {
        if (isFenced(error)) return;
        const isDeleted = isTopicDeleted(error);
        if (isDeleted) this.#ports.onTopicDeleted(generation);
        if (isDeleted || attempt >= COMMIT_TRIES)
          throw new LogError("log_unavailable", "offsets could not be committed", { cause: error });
        await sleep(COMMIT_RETRY_MS * attempt);
      }
    }
  }
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
