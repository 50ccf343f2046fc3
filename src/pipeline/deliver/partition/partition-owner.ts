import { pause } from "../../../domain/clock.ts";
import type { LogRecord, OwnedPartition } from "../../../domain/log.ts";
import { encodeClaim } from "../recovery/claim.ts";
import type { Claim } from "../recovery/claim.ts";
import { remainingTakeoverWaitMs } from "../recovery/takeover-wait.ts";
import { inOrder } from "../../log/in-order.ts";
import { partitionOf } from "../../../domain/partition.ts";
import { CommitLoop } from "../../log/commit-loop.ts";
import { IntakeBudget } from "../bounds/intake-budget.ts";
import { LiveTries } from "./live-tries.ts";
import { RECOVERY_TOPICS } from "./log-positions.ts";
import { PartitionIntake } from "./partition-intake.ts";
import { PartitionLanes } from "./partition-lanes.ts";
import { releasedRecord } from "./partition-records.ts";
import { PartitionPositions } from "./partition-positions.ts";
import type { SourceTopic } from "./partition-positions.ts";
import { makePartitionWriter } from "./partition-writer.ts";
import { WayHome } from "./way-home.ts";
import type { WriteRecords } from "./partition-writer.ts";
import { LATE_ENDS_FOR_MS, readLateEnds, watchLateEnds } from "../recovery/late-ends.ts";
import { recoverPartition } from "../recovery/recovery.ts";
import type { RecoveredPartition } from "../recovery/recovery.ts";
import type { SharedDelivery } from "../shared-delivery.ts";

const COMMIT_RETRY_MS = 500;
/** How long the log may take to accept the last word. After that there is none: the next owner waits, as it does after a crash. */
const LAST_WORD_MS = 3_000;
/** Maximum records of one partition that are not complete; more wait in the log. */
const MAX_OPEN_RECORDS = 50_000;
/**
 * Maximum records from the lowest incomplete one on. The next owner is given all of these again and keeps what became of each,
 * about 0.7 KB. A hanging try holds up nothing: even the fastest process (16,000 a second) completes fewer within its timeout
 * of 15 s.
 */
const MAX_SPAN_RECORDS = 300_000;

/** One partition from its assignment to its loss. */
export class PartitionOwner {
  readonly #shared: SharedDelivery;
  readonly #partition: OwnedPartition;
  readonly #assignmentId: string;
  readonly #positions: PartitionPositions;
  readonly #write: WriteRecords;
  readonly #lanes: PartitionLanes;
  readonly #intake: PartitionIntake;
  readonly #wayHome: WayHome;
  readonly #commits: CommitLoop;
  readonly #budget: IntakeBudget;
  readonly #opened: Promise<void>;
  readonly #ended = new AbortController();
  readonly #assignedMonotonicMs: number;
  readonly #hurried: Promise<void>;
  #open: () => void = () => undefined;
  #hurry: () => void = () => undefined;
  #closing: Promise<void> | null = null;
  /**
   * How far it has come; `#ended` says whether it is over. While it recovers, it does not know what the last owner left, and while
   * it waits, that one's tries may still be in flight.
   */
  #stage: "recovering" | "waiting" | "claiming" | "open" = "recovering";
  #caughtUp = false;

  constructor(shared: SharedDelivery, partition: OwnedPartition, assignmentId: string) {
    this.#shared = shared;
    this.#partition = partition;
    this.#assignmentId = assignmentId;
    this.#assignedMonotonicMs = shared.ports.clock.monotonic();
    const live = new LiveTries();
    this.#positions = new PartitionPositions(partition, () => this.#lanes.held.index.lowest());
    this.#write = makePartitionWriter(shared, partition, this.#positions);
    this.#budget = new IntakeBudget(shared.options.maxPendingBytes / 4, shared.budget);
    this.#lanes = new PartitionLanes(shared, partition, live, this.#write, this.#budget);
    this.#wayHome = new WayHome(partition);
    this.#intake = new PartitionIntake({
      shared,
      partition,
      live,
      lanes: this.#lanes,
      wayHome: this.#wayHome,
      write: this.#write,
    });
    this.#commits = new CommitLoop({
      partition,
      clock: shared.ports.clock,
      logger: shared.ports.logger,
      intervalMs: shared.options.commitIntervalMs,
      entries: () => this.#positions.entries(),
    });
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.#hurried = new Promise((resolve) => {
      this.#hurry = resolve;
    });
  }

  /**
   * Reads what the last owner left. Records are worked on only once this owner has committed its claim and, if the last one
   * left without a word, once that one's tries in flight must have ended.
   */
  async recover(): Promise<void> {
    await this.#positions.markRedelivered(this.#partition);
    this.#wayHome.begin(this.#positions.firstNew);
    const recovered = await recoverPartition({
      partition: this.#partition,
      positions: this.#positions.known,
      ledger: this.#intake.ledger,
      held: this.#lanes.held.index,
      limits: this.#lanes.limits.known,
      ports: this.#shared.ports,
    });
    if (this.#closed) return;
    this.#stage = "waiting";
    this.#intake.adopt(recovered);
    await this.#moveLimits();
    if (!this.#closed) this.#lanes.held.startCounting();
    void this.#openAfter(recovered);
  }

  /** Moves limits to their homes: the log may have grown since they were written. See `KnownLimits`. */
  async #moveLimits(): Promise<void> {
    const { partition, partitions } = this.#partition;
    const { known } = this.#lanes.limits;
    const moves = known.moves(partition, (endpointId) => partitionOf(endpointId, partitions));
    for (const part of inOrder(this.#shared.ports.log, moves))
      if ((await this.#write(part)) === null) return;
  }

  /** Takes in records; many (a backlog) in several turns, or webhooks would wait for all. The promise, if any, is back-pressure. */
  take(topic: SourceTopic, records: readonly LogRecord[]): Promise<void> | undefined {
    if (this.#closed) return undefined;
    if (this.#stage !== "open") return this.#opened.then(() => this.take(topic, records));
    if (records.length > this.#shared.options.turnItems) return this.#takeInTurns(topic, records);
    for (const record of records) this.#takeOne(topic, record);
    const caughtUp = topic === "events" ? this.#intake.caughtUp() : undefined;
    if (caughtUp !== undefined) return caughtUp.then(() => this.take(topic, []));
    if (this.#isFull(MAX_OPEN_RECORDS)) return this.#fewerRecords();
    return this.#budget.room();
  }

  async #takeInTurns(topic: SourceTopic, records: readonly LogRecord[]): Promise<void> {
    const takeOne = (record: LogRecord): void => this.#takeOne(topic, record);
    await this.#shared.turns.each(records, takeOne, () => !this.#closed);
    await this.take(topic, []);
  }

  onDestinationChanged(destinationId: string): void {
    if (this.#isOpen) this.#lanes.onDestinationChanged(destinationId);
  }

  async sweep(): Promise<void> {
    if (!this.#isOpen) return;
    this.#lanes.sweep();
    // The delay forwarder appends to the tiers as well; without this the floors would stay behind.
    for (const topic of RECOVERY_TOPICS) {
      const endOffset = await this.#partition.endOffset(topic);
      this.#positions.known.raise(topic, endOffset);
    }
    this.#commits.touch();
  }

  /**
   * Starts nothing more, waits for what is underway, commits, and releases the partition in the log if nothing is left. A
   * second call (the process stops, and now the partition is revoked) makes the shorter grace apply. Each caller waits for its
   * own grace, or until nothing is underway, including what went on after ownership ended.
   */
  async close(graceMs: number): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    await this.#lanes.pending.idle(this.#shared.ports.clock, graceMs);
    this.#hurry();
    await this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    this.#ended.abort();
    if (this.#stage === "recovering") {
      // Nothing was begun, and a commit would claim what was never known.
      this.#commits.close();
      this.#open();
      return;
    }
    this.#lanes.close();
    this.#open();
    this.#budget.close();
    const { clock } = this.#shared.ports;
    const idle = await this.#lanes.pending.idle(clock, graceMs, this.#hurried);
    // Until it has claimed the partition, the last owner's word stands.
    if (this.#stage !== "waiting") await this.#commits.commit();
    this.#commits.close();
    this.#lanes.held.stopCounting();
    if (!idle || this.#stage === "waiting") return;
    const released = releasedRecord(this.#partition, this.#assignmentId, clock.now());
    const untilMs = clock.monotonic() + LAST_WORD_MS;
    // Limits written after the next owner's would replace them.
    const mayWrite = () => this.#partition.exclusive() && clock.monotonic() < untilMs;
    for (const part of inOrder(this.#shared.ports.log, [this.#lanes.lastLimits(), [released]]))
      if ((await this.#write(part, { mayWrite })) === null) return;
  }

  #takeOne(topic: SourceTopic, record: LogRecord): void {
    if (!this.#positions.begin(topic, record)) return;
    const { offset } = record;
    let countedBytes = record.value.length;
    this.#budget.add(countedBytes);
    const leave = (): void => {
      this.#budget.release(countedBytes);
      countedBytes = 0;
    };
    let done = false;
    const complete = (): void => {
      if (done) return;
      done = true;
      leave();
      this.#positions.complete(topic, offset);
      this.#noteCaughtUp();
      this.#commits.touch();
    };
    this.#intake.take(record, { complete, leave });
  }

  #noteCaughtUp(): void {
    if (this.#caughtUp || !this.#positions.isCaughtUp) return;
    this.#caughtUp = true;
    this.#intake.onCaughtUp();
    // A record sent here before may be sent once more by the next owner of its former partition, after its takeover wait.
    const againForMs = LATE_ENDS_FOR_MS + this.#shared.options.takeoverWaitMs;
    void this.#pause(againForMs).then(() => this.#intake.forgetFanouts());
  }

  async #openAfter(recovered: RecoveredPartition): Promise<void> {
    const ownedForMs = this.#shared.ports.clock.monotonic() - this.#assignedMonotonicMs;
    const waitMs = remainingTakeoverWaitMs(this.#shared, recovered.unreleased, ownedForMs);
    if (waitMs > 0) {
      const { partition } = this.#partition;
      this.#shared.ports.logger.info({ partition, waitMs }, "delivery.waits_for_last_owner");
      const waitsUntilMs = this.#shared.ports.clock.now() + waitMs;
      await this.#commitClaim(waitsUntilMs);
      await this.#pause(waitMs);
      await readLateEnds(
        this.#shared.ports,
        {
          partition: this.#partition,
          positions: this.#positions.known,
          ledger: this.#intake.ledger,
          recovered,
        },
        this.#ended.signal,
      );
    }
    if (this.#closed) return;
    this.#stage = "claiming";
    await this.#commitClaim(null);
    if (this.#closed) return;
    this.#stage = "open";
    this.#lanes.open();
    this.#open();
    this.#lanes.held.sweep();
    if (waitMs > 0)
      void watchLateEnds(this.#shared, this.#partition, this.#positions.known, this.#ended.signal);
  }

  async #commitClaim(waitsUntilMs: Claim["waitsUntilMs"]): Promise<void> {
    this.#positions.claim = encodeClaim({
      ownerId: this.#assignmentId,
      counts: this.#wayHome.counts,
      incompleteUntilMs: this.#lanes.limits.incompleteUntilMs,
      waitsUntilMs,
    });
    while (!this.#closed && !(await this.#commits.commit())) await this.#pause(COMMIT_RETRY_MS);
  }

  async #fewerRecords(): Promise<void> {
    while (!this.#closed && this.#isFull(MAX_OPEN_RECORDS / 2)) await this.#pause(20);
    await this.#budget.room();
  }

  #isFull(maxOpen: number): boolean {
    return this.#positions.openCount > maxOpen || this.#positions.spanCount > MAX_SPAN_RECORDS;
  }

  get #isOpen(): boolean {
    return this.#stage === "open" && !this.#closed;
  }

  get #closed(): boolean {
    return this.#ended.signal.aborted;
  }

  #pause(delayMs: number): Promise<void> {
    return pause(this.#shared.ports.clock, delayMs, this.#ended.signal);
  }
}
