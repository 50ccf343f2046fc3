import { topicForDelay } from "../../domain/delay-tier.ts";
import type { LogRecord, NewRecord, OwnedPartition, Topic, Urgency } from "../../domain/log.ts";
import { CommitLoop } from "../log/commit-loop.ts";
import { decodeTaskHead } from "../log/task-codec.ts";
import type { DelayPorts } from "./ports.ts";
import { addWaiting, inLargeBatches, movedOn } from "./waiting-tasks.ts";
import type { RecalledTasks, WaitingTasks } from "./waiting-tasks.ts";

/** A batch larger than this is not kept in memory while its head is not due: it is read again. */
const KEEP_BYTES = 128 * 1_024;
/** A wait this short is spent in memory, whatever the size. */
const KEEP_MS = 250;
const COMMIT_RETRY_MS = 500;
/**
 * Records that leave this soon after the head go on with it: each batch costs an append and a commit, and no try is made
 * early, since a task waits for its time in its lane.
 */
const SHARED_MS = 250;
/** Clocks of brokers and processes may differ by this much. */
const CLOCKS_APART_MS = 10_000;
/** The pause between batches appended before the clock was set back: if a broker's clock is far ahead, they come round again. */
const SET_BACK_PAUSE_MS = 250;
/** Timers stand still while a machine sleeps, but clocks do not. */
const MAX_PAUSE_MS = 30_000;
/** Least bytes of a recall in one append: a large record on its own would wait for the disk twice. */
const RECALL_BYTES = 1_048_576;
/** How often a session in doubt is checked again. */
const DOUBT_MS = 250;

export type TierPorts = Pick<DelayPorts, "appender" | "clock" | "logger" | "metrics">;

/** A record and its times, for which its head is read only once. */
interface TimedRecord {
  readonly record: LogRecord;
  readonly dueAtMs: number;
  /** When it has waited the tier's time or is due, whichever comes first. */
  readonly leavesAtMs: number;
}

/**
 * One delay tier of one partition: its records are in the order they were appended, so the head is due first. Only `close`
 * ends it: a session that seems over because its heartbeats are late may turn out to be alive, and records that were handed
 * over do not come again.
 */
export class TierForwarder {
  readonly #ports: TierPorts;
  readonly #partition: OwnedPartition;
  readonly #topic: Topic;
  readonly #delayMs: number;
  #closed = false;
  #wake: (() => void) | null = null;
  #underway: Promise<void> = Promise.resolve();
  /** What was handed over and has not gone on. Nothing else may hold it: a suspended function keeps its variables in memory. */
  #rest: readonly TimedRecord[] = [];
  /** Everything below this offset has gone on. */
  #goneBefore: number;
  /** Publishing takes turns: each turn goes on from where the one before stopped. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Repeats a failed commit even if no record follows for hours: a restart would publish everything again. */
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

  /** Reads what waits for destinations of these endpoints (null: of all), by destination. @throws {LogError} */
  async survey(
    endpointIds: ReadonlySet<string> | null,
  ): Promise<ReadonlyMap<string, WaitingTasks>> {
    const found = new Map<string, WaitingTasks>();
    for await (const batch of this.#partition.read(this.#topic, this.#goneBefore)) {
      if (this.#closed) break;
      addWaiting(found, batch, endpointIds);
    }
    return found;
  }

  /**
   * Lets tasks go on before their time, and moves all others up to `lastOffset` to where they belong: once that is committed,
   * no later owner finds any of them here again. Resolves with false if ownership was in doubt or over. @throws {LogError}
   */
  recall(recalled: RecalledTasks, lastOffset: number): Promise<boolean> {
    return this.#inTurn(async () => {
      const batches = this.#partition.read(this.#topic, this.#goneBefore);
      for await (const batch of inLargeBatches(batches, RECALL_BYTES)) {
        if (this.#closed || !this.#partition.owned()) return false;
        const left = batch.filter(({ offset: at }) => at >= this.#goneBefore && at <= lastOffset);
        if (left.length === 0) break;
        const nowMs = this.#ports.clock.now();
        const moved = left.map((record) => movedOn(record, recalled, nowMs));
        if (!(await this.#publish(moved, left.at(-1)!.offset + 1, "now"))) return false;
      }
      this.#wake?.();
      return true;
    });
  }

  /** Ends the forwarding. Never rejects: whoever handed the records over is told of a failure. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake?.();
    await this.#underway.catch(() => undefined);
    await this.#turn;
    this.#commits.close();
  }

  async #forwardAll(): Promise<void> {
    while (this.#rest.length > 0 && !this.#closed) {
      if (!this.#partition.owned()) {
        await this.#pause(DOUBT_MS);
        continue;
      }
      if (!(await this.#inTurn(() => this.#moveDue()))) return;
      if (this.#rest.length > 0) await this.#waitForHead();
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Resolves with false if it was closed meanwhile. */
  async #moveDue(): Promise<boolean> {
    const nowMs = this.#ports.clock.now();
    this.#dropGone();
    const dueCount = this.#countDue(nowMs);
    if (dueCount > 0 && !(await this.#moveOn(dueCount, nowMs))) return false;
    this.#rest = this.#rest.slice(dueCount);
    return true;
  }

  /** Drops what a recall has already moved on. */
  #dropGone(): void {
    if ((this.#rest[0]?.record.offset ?? Infinity) < this.#goneBefore)
      this.#rest = this.#rest.filter(({ record }) => record.offset >= this.#goneBefore);
  }

  /** Returns how many go on now: none while the head is not due. */
  #countDue(nowMs: number): number {
    const notYet = this.#rest.findIndex(({ leavesAtMs }, index) => {
      const byMs = index === 0 ? nowMs : nowMs + SHARED_MS;
      return leavesAtMs > byMs && !this.#isOfLaterClock(leavesAtMs, nowMs);
    });
    return notYet === -1 ? this.#rest.length : notYet;
  }

  /** Waits for the head. Large batches do not wait in memory: hundreds of tiers and partitions may each have one at their head. */
  async #waitForHead(): Promise<void> {
    const { leavesAtMs, waitMs, sizeBytes, from, last } = this.#measureRest();
    if (sizeBytes <= KEEP_BYTES || waitMs <= KEEP_MS)
      return this.#pause(Math.min(waitMs, MAX_PAUSE_MS));
    this.#rest = [];
    let leftMs = waitMs;
    do {
      await this.#pause(Math.min(leftMs, MAX_PAUSE_MS));
      leftMs = leavesAtMs - this.#ports.clock.now();
    } while (
      leftMs > 0 &&
      from >= this.#goneBefore &&
      !this.#closed &&
      !this.#isOfLaterClock(leavesAtMs, leavesAtMs - leftMs)
    );
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
   * Returns whether the clock was set back since the record was appended. Such a record goes where it belongs by the current
   * clock: everything after it would otherwise wait behind it for as long as the clock was set back.
   */
  #isOfLaterClock(leavesAtMs: number, nowMs: number): boolean {
    return leavesAtMs - nowMs > 2 * this.#delayMs + CLOCKS_APART_MS;
  }

  /** Returns 0 for a record that cannot be read: it leaves at once. */
  #dueAtMs(record: LogRecord): number {
    try {
      return decodeTaskHead(record.value).dueAtMs;
    } catch (error) {
      const { topic, offset } = record;
      this.#ports.logger.error({ topic, offset, err: error }, "log.record_unreadable");
      return 0;
    }
  }

  async #moveOn(dueCount: number, nowMs: number): Promise<boolean> {
    const due = this.#rest.slice(0, dueCount);
    const moved = due.map(({ record, dueAtMs, leavesAtMs }): NewRecord => {
      const { key, value, partition } = record;
      // The next tier is chosen for the time it would have left by itself, or it would pass through one more.
      const ownTimeMs = Math.min(Math.max(nowMs, leavesAtMs), nowMs + SHARED_MS);
      return { topic: topicForDelay(dueAtMs - ownTimeMs, value.length), key, partition, value };
    });
    const headLeavesAtMs = due[0]!.leavesAtMs;
    const lateMs = nowMs - headLeavesAtMs;
    // A backlog of large records moves one at a time: it must not wait for other appends each time.
    const urgency = lateMs > SHARED_MS ? "now" : "soon";
    if (!(await this.#publish(moved, due.at(-1)!.record.offset + 1, urgency))) return false;
    this.#ports.metrics.lateness(Math.max(0, lateMs) / 1000);
    if (this.#isOfLaterClock(headLeavesAtMs, nowMs)) await this.#pause(SET_BACK_PAUSE_MS);
    return true;
  }

  /** Publishes and commits. Resolves with false if it was closed before the records were durable. */
  async #publish(
    records: readonly NewRecord[],
    goneBefore: number,
    urgency: Urgency,
  ): Promise<boolean> {
    const { appender, metrics } = this.#ports;
    const written = await appender.append(records, () => !this.#closed, urgency);
    if (written === null) return false;
    metrics.forwarded(this.#topic, records.length);
    this.#goneBefore = goneBefore;
    await this.#commits.commit();
    return true;
  }

  /** Waits, but ends early after a recall or when closed. */
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
