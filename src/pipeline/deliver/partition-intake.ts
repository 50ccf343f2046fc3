import { pause } from "../../domain/clock.ts";
import { EVENT_RUN, FAN_OUT_LATER } from "../../domain/delivery-task.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup } from "../../domain/destination.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { LogRecord, NewRecord, OwnedPartition } from "../../domain/log.ts";
import { followedBy } from "../../domain/outcome.ts";
import { topicForDelay } from "../../domain/delay-tier.ts";
import { encodeOutcome } from "../log/outcome-codec.ts";
import { partitionOf } from "../../domain/partition.ts";
import { fanoutKey, runKeyOf } from "../../domain/run-keys.ts";
import { encodeTask } from "../log/task-codec.ts";
import type { LiveTries } from "./live-tries.ts";
import type { PartitionLanes } from "./partition-lanes.ts";
import { DOUBT_CHECK_MS } from "./partition-writer.ts";
import type { WriteRecords } from "./partition-writer.ts";
import { configRetryMs } from "./ports.ts";
import type { FanoutPlan } from "./ports.ts";
import type { RecoveredPartition } from "./recovery.ts";
import { RunLedger } from "./run-ledger.ts";
import type { TaskStanding } from "./run-ledger.ts";
import type { SharedDelivery } from "./shared-delivery.ts";
import { contentOf, fanOutLaterKey, FIRST_STEP } from "./source-content.ts";
import type { SourceContent } from "./source-content.ts";

/** Turns records of `events` and `tasks` into live tries; drops what the log says is complete. */
export class PartitionIntake {
  /** What the last owners left; empty once everything of theirs is complete. */
  readonly ledger = new RunLedger();
  fanouts: RecoveredPartition["fanouts"] = new Map();
  tried: RecoveredPartition["tried"] = new Map();
  readonly #shared: SharedDelivery;
  readonly #partition: OwnedPartition;
  readonly #live: LiveTries;
  readonly #lanes: PartitionLanes;
  readonly #write: WriteRecords;

  constructor(input: {
    readonly shared: SharedDelivery;
    readonly partition: OwnedPartition;
    readonly live: LiveTries;
    readonly lanes: PartitionLanes;
    readonly write: WriteRecords;
  }) {
    this.#shared = input.shared;
    this.#partition = input.partition;
    this.#live = input.live;
    this.#lanes = input.lanes;
    this.#write = input.write;
  }

  /**
   * Everything that earlier owners worked on is complete. What is known of it is still of use for a while: a delay forwarder that
   * takes over later publishes copies of tasks whose commit was lost.
   */
  onCaughtUp(): void {
    this.#shared.recent.absorb(this.ledger);
    this.fanouts = new Map();
    this.tried = new Map();
  }

  /**
   * `complete` is called once the record is complete. One that cannot be read is logged and passed over; one that cannot be routed
   * stays open for the next owner. Thrown, that error would cost this one its partition, time and again, and all others there.
   * @returns false for that one: nobody works on it
   */
  take(record: LogRecord, complete: () => void): boolean {
    const { topic, offset } = record;
    const { logger } = this.#shared.ports;
    let content: SourceContent;
    try {
      content = contentOf(record);
    } catch (error) {
      logger.error({ topic, offset, err: error }, "log.record_unreadable");
      complete();
      return true;
    }
    try {
      this.#route(record, content, complete);
      return true;
    } catch (error) {
      logger.error({ topic, offset, err: error }, "delivery.record_not_routed");
      return false;
    }
  }

  #route(record: LogRecord, content: SourceContent, complete: () => void): void {
    if (!this.#isHome(record)) this.#sendHome(record, content, complete);
    else if (content.kind === "try") this.#admit(content.task, complete);
    else this.#takeEvent(content.event, complete, content.delayed);
  }

  #takeEvent(event: EventRecord, complete: () => void, delayed: DeliveryTask | null): void {
    if (!event.signatureValid) return complete();
    const given = this.fanouts.get(fanoutKey(event.id, EVENT_RUN)) ?? null;
    if (given !== null) return this.#fanOut(event, [], given, complete);
    if (this.ledger.judge(fanOutLaterKey(event), delayed ?? FIRST_STEP).kind !== "go")
      return complete();
    const found = this.#shared.destinationsOf(event.endpointId);
    if (found instanceof Promise)
      this.#lanes.pending.track(
        found.then((lookup) => this.#fanOutTo(event, lookup, complete, delayed)),
      );
    else this.#fanOutTo(event, found, complete, delayed);
  }

  #fanOutTo(
    event: EventRecord,
    lookup: Lookup<readonly DestinationConfig[]>,
    complete: () => void,
    delayed: DeliveryTask | null,
  ): void {
    if (!this.#partition.exclusive()) return this.#fanOutWhenExclusive(event, complete, delayed);
    switch (lookup.kind) {
      case "missing":
        return this.#fanOut(event, [], null, complete);
      case "found":
        return this.#fanOut(event, lookup.value, null, complete);
      case "unavailable":
        return this.#fanOutLater(event, complete, delayed);
      default:
        return lookup satisfies never;
    }
  }

  /**
   * An owner that slept until there was another may find other destinations than that one fanned out to, and its record would
   * say for ever that they are waited for.
   */
  #fanOutWhenExclusive(
    event: EventRecord,
    complete: () => void,
    delayed: DeliveryTask | null,
  ): void {
    const { clock, isOpen } = this.#lanes.ownership;
    this.#lanes.pending.track(
      pause(clock, DOUBT_CHECK_MS).then(() =>
        isOpen() ? this.#takeEvent(event, complete, delayed) : undefined,
      ),
    );
  }

  #fanOut(
    event: EventRecord,
    destinations: readonly DestinationConfig[],
    given: readonly string[] | null,
    complete: () => void,
  ): void {
    this.#planned(event, destinations, given, complete, (task, done) => this.#admit(task, done));
  }

  #planned(
    event: EventRecord,
    destinations: readonly DestinationConfig[],
    given: readonly string[] | null,
    complete: () => void,
    take: (task: DeliveryTask, done: () => void) => void,
  ): void {
    const { planFanout, clock } = this.#shared.ports;
    const sentTo = this.tried.get(fanoutKey(event.id, EVENT_RUN));
    const plan: FanoutPlan = planFanout(event, destinations, clock.now(), given, sentTo);
    if (plan.tasks.length === 0) return complete();
    let open = plan.tasks.length + 1;
    const oneDone = (): void => {
      open -= 1;
      if (open === 0) complete();
    };
    if (given === null) {
      const outcome: NewRecord = {
        topic: "attempts",
        key: event.endpointId,
        partition: this.#partition.partition,
        value: encodeOutcome(plan.outcome),
      };
      this.#lanes.pending.track(
        this.#write([outcome]).then((written) => (written === null ? undefined : oneDone())),
      );
    } else oneDone();
    for (const task of plan.tasks) take(task, oneDone);
  }

  /** The event waits in a delay tier as a task without a destination. */
  #fanOutLater(event: EventRecord, complete: () => void, delayed: DeliveryTask | null): void {
    this.#shared.ports.metrics.deferred("config_unavailable");
    const nowMs = this.#shared.ports.clock.now();
    const waitMs = configRetryMs(this.#shared.ports.random);
    const task: DeliveryTask = {
      event,
      destinationId: FAN_OUT_LATER,
      run: EVENT_RUN,
      trigger: "event",
      tryNumber: 1,
      deferrals: (delayed?.deferrals ?? 0) + 1,
      limitedBy: null,
      dueAtMs: nowMs + waitMs,
      runStartedAtMs: event.receivedAtMs,
    };
    this.#forward(task, complete, waitMs);
  }

  #forward(task: DeliveryTask, complete: () => void, waitMs = 0): void {
    const value = encodeTask(task);
    const topic = topicForDelay(waitMs, value.length);
    const record: NewRecord = { topic, key: task.event.endpointId, value };
    this.#lanes.pending.track(
      this.#write([record], undefined, "soon").then((written) =>
        written === null ? undefined : complete(),
      ),
    );
  }

  #admit(arrived: DeliveryTask, complete: () => void): void {
    this.#unlessDone(arrived, complete, (task) => {
      if (this.#live.begin(task, complete, () => this.#admit(task, complete)))
        this.#lanes.route(task);
    });
  }

  /** Goes on with a task unless the log says that it, or what comes after it, is durable. */
  #unlessDone(task: DeliveryTask, complete: () => void, goOn: (task: DeliveryTask) => void): void {
    const standing = this.#judge(task);
    switch (standing.kind) {
      case "superseded":
        this.#shared.ports.metrics.droppedDuplicate();
        return complete();
      case "follow_up":
        this.#lanes.pending.track(
          this.#lanes
            .publishFollowUp(followedBy(task, standing.followUp))
            .then((published) => (published ? complete() : undefined)),
        );
        return;
      case "go":
        return goOn(
          standing.notBeforeMs > task.dueAtMs ? { ...task, dueAtMs: standing.notBeforeMs } : task,
        );
      default:
        return standing satisfies never;
    }
  }

  #judge(task: DeliveryTask): TaskStanding {
    const key = runKeyOf(task);
    const recent = this.#shared.recent.judge(key, task);
    if (recent.kind !== "go") return recent;
    const left = this.ledger.judge(key, task);
    if (left.kind !== "go") return left;
    return { kind: "go", notBeforeMs: Math.max(recent.notBeforeMs, left.notBeforeMs) };
  }

  #isHome(record: LogRecord): boolean {
    return partitionOf(record.key, this.#shared.ports.log.partitions) === record.partition;
  }

  /**
   * The number of partitions has grown since: only the owner of the home partition may send. What earlier owners
   * made of the record is known here alone, so only what they left goes there.
   */
  #sendHome(record: LogRecord, content: SourceContent, complete: () => void): void {
    if (content.kind === "try") return this.#sendTaskHome(content.task, complete);
    const { event, delayed } = content;
    const given = this.fanouts.get(fanoutKey(event.id, EVENT_RUN)) ?? null;
    if (given !== null && delayed === null)
      return this.#planned(event, [], given, complete, (task, done) =>
        this.#sendTaskHome(task, done),
      );
    const { topic, key, value } = record;
    this.#lanes.pending.track(
      this.#write([{ topic, key, value }]).then((written) =>
        written === null ? undefined : complete(),
      ),
    );
  }

  #sendTaskHome(task: DeliveryTask, complete: () => void): void {
    this.#unlessDone(task, complete, (left) => this.#forward(left, complete));
  }
}
