import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { LogRecord, NewRecord, OwnedPartition } from "../../../domain/log.ts";
import { followedBy } from "../../../domain/outcome.ts";
import { topicForDelay } from "../../../domain/delay-tier.ts";
import { partitionOf } from "../../../domain/partition.ts";
import { runKeyOf } from "../../../domain/run-keys.ts";
import { encodeTask } from "../../log/task-codec.ts";
import { FanoutIntake } from "./fanout-intake.ts";
import type { Fanout } from "./fanout-intake.ts";
import type { LiveTries } from "./live-tries.ts";
import type { PartitionLanes } from "./partition-lanes.ts";
import type { WriteRecords } from "./partition-writer.ts";
import type { RecoveredPartition } from "../recovery/recovery.ts";
import { RunLedger } from "../recovery/run-ledger.ts";
import type { TaskStanding } from "../recovery/run-ledger.ts";
import { noteUnreadable } from "../note-unreadable.ts";
import type { SharedDelivery } from "../shared-delivery.ts";
import { contentOf } from "./source-content.ts";
import type { SourceContent } from "./source-content.ts";
import type { WayHome } from "./way-home.ts";

/** How an owner is done with a record that it has taken in: one of these is called. */
export interface TakenRecord {
  /** Marks it as complete. */
  readonly complete: () => void;
  /** Leaves it open for the next owner: nobody works on it here. */
  readonly leave: () => void;
}

/** Turns records of `events` and `tasks` into live tries; drops what the log says is complete. */
export class PartitionIntake {
  /** What earlier owners left; empty once all of it is complete. */
  readonly ledger = new RunLedger();
  readonly #shared: SharedDelivery;
  readonly #live: LiveTries;
  readonly #lanes: PartitionLanes;
  readonly #write: WriteRecords;
  readonly #wayHome: WayHome;
  readonly #here: number;
  readonly #fanoutIntake: FanoutIntake;

  constructor(input: {
    readonly shared: SharedDelivery;
    readonly partition: OwnedPartition;
    readonly live: LiveTries;
    readonly lanes: PartitionLanes;
    readonly wayHome: WayHome;
    readonly write: WriteRecords;
  }) {
    this.#shared = input.shared;
    this.#live = input.live;
    this.#lanes = input.lanes;
    this.#write = input.write;
    this.#wayHome = input.wayHome;
    this.#here = input.partition.partition;
    this.#fanoutIntake = new FanoutIntake({
      ...input,
      ledger: this.ledger,
      admit: (task, complete) => this.#admit(task, complete),
      forward: (task, complete, waitMs) => this.#forward(task, this.#here, complete, waitMs),
    });
  }

  /** Takes over what recovery has found of earlier owners' fan-outs. */
  adopt(recovered: RecoveredPartition): void {
    this.#fanoutIntake.adopt(recovered);
  }

  /**
   * Keeps what is known of earlier owners' runs for a while after all of them are complete: a delay forwarder that takes over
   * later publishes copies of tasks whose commit was lost.
   */
  onCaughtUp(): void {
    this.#shared.recent.absorb(this.ledger);
  }

  /** Returns a promise, as back-pressure, while events with many destinations are being taken in over several turns. */
  caughtUp(): Promise<void> | undefined {
    return this.#fanoutIntake.caughtUp();
  }

  /** Forgets earlier owners' fan-outs, once no partition that sent records here before can send them again. */
  forgetFanouts(): void {
    this.#fanoutIntake.forget();
  }

  /**
   * Takes in a record. One that cannot be read is logged, counted and skipped; one that cannot be routed stays open for the next owner:
   * if that error were thrown, the owner would lose its partition, with every other record in it, again and again.
   */
  take(record: LogRecord, taken: TakenRecord): void {
    let content: SourceContent;
    try {
      content = contentOf(record);
    } catch (error) {
      noteUnreadable(this.#shared.ports, record, error);
      return taken.complete();
    }
    if (content.kind === "try") this.#lanes.held.onArrived(content.task);
    if (!this.#wayHome.isHome(record)) {
      this.#lanes.pending.track(this.#takeStray(record, content, taken));
      return;
    }
    this.#orLeave(record, taken, (leave) => {
      if (content.kind === "try") this.#admit(content.task, taken.complete);
      else this.#fanoutIntake.take(asFanout(content, taken.complete, leave));
    });
  }

  /**
   * Sends a record home if its writer knew of fewer partitions. If the writer knew of more than this assignment does, the
   * record stays, since the next assignment makes this its home: sent to the home that it has now, it would be tried there,
   * and be found here again.
   */
  async #takeStray(record: LogRecord, content: SourceContent, taken: TakenRecord): Promise<void> {
    const { log } = this.#shared.ports;
    await log.learnPartitions();
    const isHomeSoon = partitionOf(record.key, log.partitions) === record.partition;
    if (isHomeSoon || !this.#lanes.ownership.isOpen()) return taken.leave();
    this.#orLeave(record, taken, (leave) => {
      this.#sendHome(record, content, { complete: taken.complete, leave });
    });
  }

  #orLeave(
    { topic, offset }: LogRecord,
    taken: TakenRecord,
    route: (leave: Fanout["leave"]) => void,
  ): void {
    const leave = (error: unknown): void => {
      this.#shared.ports.logger.error({ topic, offset, err: error }, "delivery.record_not_routed");
      taken.leave();
    };
    try {
      route(leave);
    } catch (error) {
      leave(error);
    }
  }

  #forward(task: DeliveryTask, partition: number, complete: () => void, waitMs = 0): void {
    const written = this.#shared.copies.run(partition, task.event.body, () => {
      const value = encodeTask(task);
      const topic = topicForDelay(waitMs, value.length);
      const record: NewRecord = { topic, key: task.event.endpointId, partition, value };
      return this.#write([record], { urgency: "soon" });
    });
    this.#lanes.pending.track(
      written.then((positions) => (positions === null ? undefined : complete())),
    );
  }

  #admit(arrived: DeliveryTask, complete: () => void): void {
    this.#unlessDone(arrived, complete, (task) => {
      if (this.#live.begin(task, complete, () => this.#admit(task, complete)))
        this.#lanes.route(task);
    });
  }

  /** Goes on with a task unless the log says that its end, or its successor, is durable. */
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

  /**
   * Sends home what earlier owners left of a record: the number of partitions has grown since, and only the owner of the home
   * partition may send. What they made of it is known only here, so only the rest goes home, or first to another partition
   * that may know of it.
   */
  #sendHome(
    record: LogRecord,
    content: SourceContent,
    { complete, leave }: Pick<Fanout, "complete" | "leave">,
  ): void {
    const partition = this.#wayHome.next(record);
    const sendTask = (task: DeliveryTask, done: () => void): void =>
      this.#unlessDone(task, done, (left) => this.#forward(left, partition, done));
    if (content.kind === "try") return sendTask(content.task, complete);
    if (this.#fanoutIntake.sendHome(asFanout(content, complete, leave), sendTask)) return;
    const { topic, key, value } = record;
    this.#lanes.pending.track(
      this.#write([{ topic, key, partition, value }]).then((written) =>
        written === null ? undefined : complete(),
      ),
    );
  }
}

function asFanout(
  { event, delayed }: Extract<SourceContent, { readonly kind: "fanout" }>,
  complete: Fanout["complete"],
  leave: Fanout["leave"],
): Fanout {
  return { event, delayed, complete, leave };
}
