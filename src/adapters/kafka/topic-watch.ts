import { setTimeout as sleep } from "node:timers/promises";
import type { Admin } from "kafkajs";
import type { Logger } from "../../domain/logger.ts";
import { brokerFailure } from "./broker-failure.ts";
import { findTopics, missingTopics } from "./find-topics.ts";

/** Callers within this time share one look-up. */
const LEARN_TOGETHER_MS = 500;
const LEARN_TRIES = 10;
const LEARN_RETRY_MS = 500;
const HOW_TO_MEND = "end all delivery processes, then start them: topics are made at start";
const HOW_TO_GROW = "start any process of the relay again: it gives all topics as many partitions";

export interface TopicWatchOptions {
  readonly admin: Admin;
  /** The brokers' names of the topics. */
  readonly names: readonly string[];
  /** How many partitions they are to have: known before the first look-up. */
  readonly partitions: number;
  /** Time between two look-ups. */
  readonly everyMs: number;
  readonly logger: Logger;
}

/** Knows how many partitions the topics have, and tells of topics that are missing, without leaders, or smaller than others. */
export class TopicWatch implements Disposable {
  readonly #options: TopicWatchOptions;
  #partitions: number;
  #timer: NodeJS.Timeout | null = null;
  #learning: Promise<void> | null = null;
  #toldLeaderless = "";
  #lastSmall = "";
  #ended = false;

  constructor(options: TopicWatchOptions) {
    this.#options = options;
    this.#partitions = options.partitions;
  }

  /** The partition count as known now; it never shrinks. */
  get partitions(): number {
    return this.#partitions;
  }

  /** Looks the topics up, now and from time to time. @throws what the client throws, or {LogError}, if they cannot be looked up now */
  async start(): Promise<void> {
    await this.#lookUp();
    this.#timer = setInterval(() => void this.#refresh(), this.#options.everyMs);
    this.#timer.unref();
  }

  /** Looks the partition count up, for all who ask at about the same time. Never rejects. */
  learn(): Promise<void> {
    this.#learning ??= sleep(LEARN_TOGETHER_MS, undefined, { ref: false })
      .then(() => this.#refresh())
      .finally(() => {
        this.#learning = null;
      });
    return this.#learning;
  }

  /** Looks the partition count up until it is at least this high, for some seconds at most, and returns it. Never rejects. */
  async learnAtLeast(atLeast: number): Promise<number> {
    for (let attempt = 1; !this.#ended; attempt += 1) {
      try {
        await this.#lookUp();
        if (this.#partitions >= atLeast) break;
      } catch (error) {
        this.#options.logger.warn(brokerFailure(error), "log.metadata_not_refreshed");
      }
      // A topic that was left behind when the others grew must not keep the group from its work.
      if (attempt === LEARN_TRIES) break;
      await sleep(LEARN_RETRY_MS, undefined, { ref: false });
    }
    return this.#partitions;
  }

  [Symbol.dispose](): void {
    this.#ended = true;
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  /**
   * Topics that were deleted are not made anew while consumers run, which would go on past the first records of the new ones. The
   * brokers' error names none of them, so they are looked up to be named.
   */
  async #refresh(): Promise<void> {
    const { admin, names, logger } = this.#options;
    try {
      await this.#lookUp();
    } catch (error) {
      logger.warn(brokerFailure(error), "log.metadata_not_refreshed");
      const topics = await missingTopics(admin, names).catch(() => []);
      if (topics.length > 0) logger.error({ topics, mend: HOW_TO_MEND }, "log.topics_missing");
    }
  }

  async #lookUp(): Promise<void> {
    const { admin, names } = this.#options;
    const { partitions, leaderless, small } = await findTopics(admin, names);
    // Partitions are never taken away; a broker that lags behind may still report fewer.
    this.#partitions = Math.max(this.#partitions, partitions);
    this.#tellOfLeaderless(leaderless);
    this.#tellOfSmall(small);
  }

  #tellOfLeaderless(partitions: readonly string[]): void {
    const told = partitions.join(" ");
    if (told === this.#toldLeaderless) return;
    this.#toldLeaderless = told;
    const { logger } = this.#options;
    if (told === "") logger.info({}, "log.leaders_are_back");
    else logger.error({ partitions }, "log.partitions_without_leader");
  }

  /** Only of those that were as small the last time: a process that starts grows one after the other. */
  #tellOfSmall(topics: readonly string[]): void {
    const small = topics.join(" ");
    if (small !== "" && small === this.#lastSmall)
      this.#options.logger.error({ topics, mend: HOW_TO_GROW }, "log.partitions_uneven");
    this.#lastSmall = small;
  }
}
