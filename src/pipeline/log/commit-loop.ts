import type { Clock } from "../../domain/clock.ts";
import { makeFailureWatch, type FailureWatch } from "../../domain/failure-watch.ts";
import type { CommitEntry, OwnedPartition, Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { toError } from "../../domain/thrown.ts";

/** Commits what has changed, at most once per interval. A commit that fails is repeated with the next. */
export class CommitLoop {
  readonly #partition: OwnedPartition;
  readonly #clock: Clock;
  readonly #watch: FailureWatch;
  readonly #intervalMs: number;
  readonly #entries: () => readonly CommitEntry[];
  readonly #committed = new Map<Topic, string>();
  #cancel: (() => void) | null = null;
  #running: Promise<boolean> | null = null;
  #closed = false;

  constructor(input: {
    readonly partition: OwnedPartition;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly intervalMs: number;
    readonly entries: () => readonly CommitEntry[];
  }) {
    this.#partition = input.partition;
    this.#clock = input.clock;
    const { partition } = input.partition;
    this.#watch = makeFailureWatch({
      clock: input.clock,
      failed: (fields) => input.logger.warn({ partition, ...fields }, "log.commit_failed"),
      restored: () => undefined,
    });
    this.#intervalMs = input.intervalMs;
    this.#entries = input.entries;
  }

  /** Schedules a commit after something has completed. */
  touch(): void {
    if (this.#closed) return;
    this.#cancel ??= this.#clock.schedule(this.#intervalMs, () => {
      this.#cancel = null;
      void this.commit();
    });
  }

  /** Commits now; returns false when that failed (logged), and never rejects. One commit runs at a time. */
  async commit(): Promise<boolean> {
    while (this.#running !== null) await this.#running;
    this.#running = this.#commitOnce();
    const done = await this.#running;
    this.#running = null;
    if (!done) this.touch();
    return done;
  }

  close(): void {
    this.#closed = true;
    this.#cancel?.();
    this.#cancel = null;
  }

  async #commitOnce(): Promise<boolean> {
    try {
      const changed = this.#entries().filter(
        (entry) => this.#committed.get(entry.topic) !== fingerprint(entry),
      );
      if (changed.length > 0) await this.#partition.commit(changed);
      for (const entry of changed) this.#committed.set(entry.topic, fingerprint(entry));
      return true;
    } catch (error) {
      this.#watch.onError(toError(error));
      return false;
    }
  }
}

function fingerprint({ offset, metadata }: CommitEntry): string {
  return `${offset} ${metadata ?? ""}`;
}
