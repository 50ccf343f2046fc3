import type { Clock } from "../../domain/clock.ts";
import { topicForDelay } from "../../domain/delay-tier.ts";
import type {
  LogRecord,
  NewRecord,
  OwnedPartition,
  Position,
  Topic,
  Urgency,
} from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { CommitLoop } from "../log/commit-loop.ts";
import { destinationOfTask, dueTimeOfTask } from "../log/task-codec.ts";

/** A batch larger than this is not kept in memory while its head is not due: it is read again. */
const KEEP_BYTES = 128 * 1_024;
/** Worth waiting for in memory, whatever the size. */
const KEEP_MS = 250;
const COMMIT_RETRY_MS = 500;
/**
 * What leaves this soon after the head goes on with it: each batch costs an append and a commit, and none is early by it, since a
 * task waits for its time in its lane.
 */
const SHARED_MS = 250;
/** Clocks of brokers and processes may differ by this much. */
const CLOCKS_APART_MS = 10_000;
/** Between batches that were appended before the clock was set back: where a broker's clock is far ahead, they come round again. */
const SET_BACK_PAUSE_MS = 250;
/** Timers stand still while a machine sleeps, and clocks do not. */
const LONGEST_PAUSE_MS = 30_000;
/** How often a session in doubt is looked at again. */
const DOUBT_MS = 250;

export interface AppendDurably {
  append(
    records: readonly NewRecord[],
    stillNeeded: () => boolean,
    urgency: Urgency,
  ): Promise<readonly Position[] | null>;
}

export interface TierPorts {
  readonly appender: AppendDurably;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: {
    forwarded(topic: Topic, count: number): void;
    lateness(seconds: number): void;
  };
}

/** A record and its times, which its head is read for once. */
interface TimedRecord {
  readonly record: LogRecord;
  readonly dueAtMs: number;
  /** When it has waited the tier's time, or is due before that. */
  readonly leavesAtMs: number;
}

/**
 * One delay tier of one partition: its records are in the order they were appended, so the head is due first. Only
 * `close` ends it: a session that may be over, for its heartbeats are late, may as well turn out to be alive, and the
 * records that were handed over do not come again.
 */
export class TierForwarder {
  readonly #ports: TierPorts;
  readonly #partition: OwnedPartition;
  readonly #topic: Topic;
  readonly #delayMs: number;
  #closed = false;
  #wake: (() => void) | null = null;
  #underway: Promise<void> = Promise.resolve();
  /** What was handed over and has not gone on. Nothing else may hold it: what a suspended function knows stays in memory. */
  #rest: readonly TimedRecord[] = [];
  /** Everything below this offset has gone on. */
  #goneBefore: number;
  /** Offsets of those that went on before their time. */
  readonly #recalled = new Set<number>();
  /** A commit that fails is repeated though no record may follow for hours: a restart would publish all again. */
  readonly #commits: CommitLoop;

  constructor(ports: TierPorts, partition: OwnedPartition, topic: Topic, delayMs: number) {
    this.#ports = ports;
    this.#partition = partition;
    this.#topic = topic;
    this.#delayMs = delayMs;
    this.#goneBefore = partition.committed(topic)?.offset ?? 0;
    this.#commits = new CommitLoop({
      partition,
      clock: ports.clock,
      logger: ports.logger,
      intervalMs: COMMIT_RETRY_MS,
      entries: () => [{ topic, offset: this.#goneBefore }],
    });
  }

  /** Resolves when all records have gone on, or it was closed. */
  forward(records: readonly LogRecord[]): Promise<void> {
    this.#rest = records.map((record) => this.#timed(record));
    this.#underway = this.#forwardAll();
    return this.#underway;
  }

  /**
   * Lets tasks of these endpoints go on now whose destination is gone. Where they lie they are passed over when their time has come;
   * an owner after this one publishes them once more, for which the delivery is prepared. @throws {LogError}
   */
  async recall(
    endpointIds: ReadonlySet<string>,
    isGone: (destinationId: string) => Promise<boolean>,
  ): Promise<void> {
    for await (const batch of this.#partition.read(this.#topic, this.#goneBefore)) {
      const found: LogRecord[] = [];
      for (const record of batch) {
        const destinationId = endpointIds.has(record.key) ? destinationOf(record) : null;
        if (destinationId !== null && (await isGone(destinationId))) found.push(record);
      }
      const left = found.filter(
        ({ offset }) => offset >= this.#goneBefore && !this.#recalled.has(offset),
      );
      if (this.#closed || !this.#partition.owned()) return;
      if (left.length === 0) continue;
      const records = left.map(({ key, value }): NewRecord => ({ topic: "tasks", key, value }));
      const written = await this.#ports.appender.append(records, () => !this.#closed, "soon");
      if (written === null) return;
      for (const { offset } of left) this.#recalled.add(offset);
    }
  }

  /** Never rejects: whoever handed the records over was told of a failure. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake?.();
    await this.#underway.catch(() => undefined);
    this.#commits.close();
  }

  async #forwardAll(): Promise<void> {
    while (this.#rest.length > 0 && !this.#closed) {
      if (!this.#partition.owned()) {
        await this.#pause(DOUBT_MS);
        continue;
      }
      const nowMs = this.#ports.clock.now();
      const dueCount = this.#countDue(nowMs);
      if (dueCount > 0 && !(await this.#moveOn(dueCount, nowMs))) return;
      this.#rest = this.#rest.slice(dueCount);
      if (this.#rest.length > 0) await this.#waitForHead();
    }
  }

  /** How many go on now: none while the head is not due. */
  #countDue(nowMs: number): number {
    const notYet = this.#rest.findIndex(({ leavesAtMs }, index) => {
      const byMs = index === 0 ? nowMs : nowMs + SHARED_MS;
      return leavesAtMs > byMs && !this.#isOfLaterClock(leavesAtMs, nowMs);
    });
    return notYet === -1 ? this.#rest.length : notYet;
  }

  /** Large records do not wait in memory: hundreds of tiers and partitions may each have one at their head. */
  async #waitForHead(): Promise<void> {
    const { leavesAtMs, waitMs, sizeBytes, from, last } = this.#measureRest();
    if (sizeBytes <= KEEP_BYTES || waitMs <= KEEP_MS)
      return this.#pause(Math.min(waitMs, LONGEST_PAUSE_MS));
    this.#rest = [];
    let leftMs = waitMs;
    do {
      await this.#pause(Math.min(leftMs, LONGEST_PAUSE_MS));
      leftMs = leavesAtMs - this.#ports.clock.now();
    } while (leftMs > 0 && !this.#closed && !this.#isOfLaterClock(leavesAtMs, leavesAtMs - leftMs));
    if (!this.#closed) this.#rest = await this.#readAgain(from, last);
  }

  #measureRest() {
    const head = this.#rest[0]!;
    return {
      leavesAtMs: head.leavesAtMs,
      waitMs: head.leavesAtMs - this.#ports.clock.now(),
      sizeBytes: this.#rest.reduce((sum, { record }) => sum + record.value.length, 0),
      from: head.record.offset,
      last: this.#rest.at(-1)!.record.offset,
    };
  }

  async #readAgain(from: number, last: number): Promise<readonly TimedRecord[]> {
    const again: TimedRecord[] = [];
    for await (const batch of this.#partition.read(this.#topic, from)) {
      const ours = batch.filter((record) => record.offset <= last);
      again.push(...ours.map((record) => this.#timed(record)));
      if ((batch.at(-1)?.offset ?? last) >= last) break;
    }
    return again;
  }

  #timed(record: LogRecord): TimedRecord {
    const dueAtMs = this.#dueAtMs(record);
    return { record, dueAtMs, leavesAtMs: Math.min(record.appendedAtMs + this.#delayMs, dueAtMs) };
  }

  /**
   * The clock was set back since it was appended: it goes to where it belongs by the clock of now. Whatever came after it would
   * wait behind it for as long as the clock was set back.
   */
  #isOfLaterClock(leavesAtMs: number, nowMs: number): boolean {
    return leavesAtMs - nowMs > 2 * this.#delayMs + CLOCKS_APART_MS;
  }

  /** A record that cannot be read leaves at once. */
  #dueAtMs(record: LogRecord): number {
    try {
      return dueTimeOfTask(record.value);
    } catch (error) {
      const { topic, offset } = record;
      this.#ports.logger.error({ topic, offset, err: error }, "log.record_unreadable");
      return 0;
    }
  }

  async #moveOn(dueCount: number, nowMs: number): Promise<boolean> {
    const due = this.#rest.slice(0, dueCount);
    const left = due.filter(({ record }) => !this.#recalled.delete(record.offset));
    const moved = left.map(({ record: { key, value }, dueAtMs, leavesAtMs }): NewRecord => {
      // By when it would have gone on by itself its next tier is chosen, or it would take one more.
      const ownTimeMs = Math.min(Math.max(nowMs, leavesAtMs), nowMs + SHARED_MS);
      return { topic: topicForDelay(dueAtMs - ownTimeMs, value.length), key, value };
    });
    const { appender, metrics } = this.#ports;
    const headLeavesAtMs = due[0]!.leavesAtMs;
    const lateMs = nowMs - headLeavesAtMs;
    // A backlog of large records, one at a time, must not wait for others with each of them.
    const urgency = lateMs > SHARED_MS ? "now" : "soon";
    if (moved.length > 0) {
      const written = await appender.append(moved, () => !this.#closed, urgency);
      if (written === null) return false;
    }
    metrics.forwarded(this.#topic, moved.length);
    metrics.lateness(Math.max(0, lateMs) / 1000);
    this.#goneBefore = due.at(-1)!.record.offset + 1;
    await this.#commits.commit();
    if (this.#isOfLaterClock(headLeavesAtMs, nowMs)) await this.#pause(SET_BACK_PAUSE_MS);
    return true;
  }

  /** Ends early when it is closed. */
  #pause(delayMs: number): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#ports.clock.schedule(Math.max(0, delayMs), resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}

/** Null for a fan-out that is still to be made, and for what cannot be read. */
function destinationOf({ value }: LogRecord): string | null {
  try {
    return destinationOfTask(value) || null;
  } catch {
    return null;
  }
}
