import type { Clock } from "../../../domain/clock.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../../domain/destination.ts";
import type { NewRecord, OwnedPartition } from "../../../domain/log.ts";
import { followedBy } from "../../../domain/outcome.ts";
import { paceOf } from "../../../domain/rate-limit.ts";
import { runKeyOf } from "../../../domain/run-keys.ts";
import { concludeDead, concludeRateLimited } from "../try/conclude.ts";
import { DESTINATION_DELETED, NOT_DELIVERED_IN_RETENTION } from "../try/dead-reasons.ts";
import { HeldTasks } from "../held/held-tasks.ts";
import type { IntakeBudget } from "../bounds/intake-budget.ts";
import { LaneSet } from "../lane/lane-set.ts";
import type { LaneHost } from "../lane/lane-host.ts";
import type { LimitRecord } from "../limits/limits-codec.ts";
import type { LiveTries } from "./live-tries.ts";
import { writeOwned } from "./partition-writer.ts";
import type { Ownership, WriteRecords } from "./partition-writer.ts";
import { endRecord, limitRecord, taskRecord } from "./partition-records.ts";
import { PartitionLimits } from "../limits/partition-limits.ts";
import { PendingWork } from "./pending-work.ts";
import { TaskEnds } from "./task-ends.ts";
import { jitteredConfigRetryMs } from "../config-retry.ts";
import type { DeferralReason } from "../ports.ts";
import type { DeliveryOptions } from "../delivery-options.ts";
import type { Reply } from "../../../domain/outbound-request.ts";
import { sendTry } from "../try/send-try.ts";
import type { SendGate } from "../bounds/send-gate.ts";
import type { SharedDelivery } from "../shared-delivery.ts";

/** Deferrals of which a receiver is the cause. */
const OF_RECEIVER: ReadonlySet<DeferralReason> = new Set(["lane_full", "circuit_open"]);

/** The lanes of one partition, and everything that can become of a task. */
export class PartitionLanes implements LaneHost {
  readonly clock: Clock;
  readonly gate: SendGate;
  readonly budget: IntakeBudget;
  readonly options: DeliveryOptions;
  readonly steadyNow: () => number;
  readonly assignedSteadyMs: number;
  readonly held: HeldTasks;
  readonly pending: PendingWork;
  readonly limits: PartitionLimits;
  readonly #shared: SharedDelivery;
  readonly #partition: OwnedPartition;
  readonly #live: LiveTries;
  readonly #write: WriteRecords;
  readonly ownership: Ownership;
  readonly #ends: TaskEnds;
  readonly #lanes = new LaneSet(this);
  #isOpen = false;

  constructor(
    shared: SharedDelivery,
    partition: OwnedPartition,
    live: LiveTries,
    write: WriteRecords,
    budget: IntakeBudget,
  ) {
    // The record whose work failed stays open for the next owner.
    this.pending = new PendingWork((error) =>
      shared.ports.logger.error({ err: error }, "delivery.work_failed"),
    );
    this.budget = budget;
    this.clock = shared.ports.clock;
    this.gate = shared.gate;
    this.options = shared.options;
    this.steadyNow = shared.steadyNow;
    this.assignedSteadyMs = shared.steadyNow();
    this.limits = new PartitionLimits(shared, partition, this.assignedSteadyMs);
    this.#shared = shared;
    this.#partition = partition;
    this.#live = live;
    this.#write = write;
    this.ownership = { partition, clock: this.clock, isOpen: () => this.#isOpen };
    this.#ends = new TaskEnds(shared, live, write, this.ownership);
    this.held = new HeldTasks({
      clock: shared.ports.clock,
      logger: shared.ports.logger,
      partition,
      retentionMs: shared.options.retentionMs,
      mayStart: () => this.mayStart(),
      lookUp: (destinationId) => this.lookUp(destinationId),
      hasRoom: (destinationId) => this.#lanes.find(destinationId)?.hasRoom() ?? true,
      log: shared.ports.log,
      write,
      copied: (task, work) => this.#ends.copied(task, work),
      deadRecord: (task, config, reason) =>
        endRecord(
          this.#partition,
          concludeDead(task, config?.receiverUrl ?? "", reason, this.clock.now()),
        ),
      onHeld: (change) => shared.ports.metrics.held(change),
      onDead: (count) => {
        for (let n = 0; n < count; n += 1) shared.ports.metrics.attempted("dead", null);
      },
    });
  }

  open(): void {
    this.#isOpen = true;
  }

  /** Starts nothing more; tasks that wait stay in the log. */
  close(): void {
    this.#isOpen = false;
    this.limits.close();
    this.#lanes.close();
    this.held.close();
  }

  /** Returns the records that let the next owner use limits exactly, once the lanes are closed and nothing is pending. */
  lastLimits(): NewRecord[] {
    return this.#lanes
      .lastLimits()
      .map(({ record, endpointId }) => limitRecord(this.#partition, record, endpointId));
  }

  /** Routes a live task: into a lane, to a delay tier, to `held`, or to its end. */
  route(task: DeliveryTask): void {
    const found = this.lookUp(task.destinationId);
    if (found instanceof Promise)
      this.pending.track(found.then((lookup) => this.#routeWith(task, lookup)));
    else this.#routeWith(task, found);
  }

  onDestinationChanged(destinationId: string): void {
    this.#lanes.onDestinationChanged(destinationId);
    this.held.release(destinationId);
  }

  sweep(): void {
    this.#lanes.sweep();
    this.held.sweep();
  }

  mayStart(): boolean {
    return this.#isOpen && this.#partition.owned();
  }

  lookUp(destinationId: string): MaybeLater<Lookup<DestinationConfig>> {
    return this.#shared.lookUp(destinationId);
  }

  async writeLimit(record: LimitRecord, endpointId: string): Promise<boolean> {
    if (!this.mayStart()) return false;
    const records = [limitRecord(this.#partition, record, endpointId)];
    return (await this.#write(records, { mayWrite: () => this.mayStart() })) !== null;
  }

  endIfOver(task: DeliveryTask): boolean {
    return this.#ends.endIfOver(task);
  }

  makeTry(
    task: DeliveryTask,
    config: DestinationConfig,
    onSent: () => void,
  ): Promise<Reply | null> {
    const { reply, conclusion } = sendTry(this.#shared, task, config, onSent);
    this.pending.track(
      conclusion.then((end) => (end === null ? undefined : this.#ends.conclude(task, end))),
    );
    return reply;
  }

  putOff(
    task: DeliveryTask,
    config: DestinationConfig | null,
    reason: DeferralReason,
    dueAtMs: number,
  ): void {
    this.#shared.ports.metrics.deferred(reason);
    if (reason === "rate_limit") {
      // Beyond the retention it would come back only to end: a backlog may get slots that are years away.
      const untilMs = Math.min(dueAtMs, task.runStartedAtMs + this.options.retentionMs + 1);
      const row = concludeRateLimited(task, config?.receiverUrl ?? "", untilMs, this.clock.now());
      const limitedBy = config === null ? null : paceOf(config);
      this.pending.track(this.#ends.conclude({ ...task, limitedBy }, row));
      return;
    }
    const isEarly = reason === "early";
    const byReceiverAtMs = OF_RECEIVER.has(reason) ? this.clock.now() : null;
    const waiting = {
      ...task,
      deferrals: task.deferrals + 1,
      limitedBy: isEarly ? task.limitedBy : null,
      putOffByReceiverAtMs: isEarly ? task.putOffByReceiverAtMs : byReceiverAtMs,
      dueAtMs,
    };
    this.pending.track(this.#ends.goOnAs(task, waiting));
  }

  recordLimited(task: DeliveryTask, config: DestinationConfig, dueAtMs: number): DeliveryTask {
    const { metrics } = this.#shared.ports;
    metrics.deferred("rate_limit");
    const end = concludeRateLimited(task, config.receiverUrl, dueAtMs, this.clock.now());
    const written = writeOwned(
      this.#write,
      this.ownership,
      [endRecord(this.#partition, end)],
      "soon",
    ).then((positions) => positions !== null && metrics.attempted("rate_limited", null));
    this.pending.track(written);
    return followedBy({ ...task, limitedBy: paceOf(config) }, end.followUp);
  }

  hold(task: DeliveryTask): void {
    this.#shared.ports.metrics.deferred("paused");
    this.#lanes.find(task.destinationId)?.onHeld();
    this.pending.track(
      this.held.hold(task).then((waiting) => {
        if (waiting === null) return;
        this.#shared.recent.noteWaiting(runKeyOf(waiting), waiting);
        this.#live.end(task);
      }),
    );
  }

  endDead(task: DeliveryTask, config: DestinationConfig | null, reason: string): void {
    const end = concludeDead(task, config?.receiverUrl ?? "", reason, this.clock.now());
    this.pending.track(this.#ends.conclude(task, end));
  }

  onCircuit(change: 1 | -1): void {
    this.#shared.ports.metrics.openCircuits(change);
  }
  onQueued(change: number): void {
    this.#shared.onQueued(change);
  }

  /** Publishes the follow-up of an end that is already durable. Resolves with true once it is durable as well. */
  async publishFollowUp(task: DeliveryTask): Promise<boolean> {
    const written = await this.#ends.copied(task, () =>
      this.#write([taskRecord(this.#partition, task, this.clock.now())]),
    );
    if (written !== null) this.#shared.recent.noteWaiting(runKeyOf(task), task);
    return written !== null;
  }

  #routeWith(task: DeliveryTask, lookup: Lookup<DestinationConfig>): void {
    if (!this.#isOpen) return;
    switch (lookup.kind) {
      case "missing":
        return this.endDead(task, null, DESTINATION_DELETED);
      case "unavailable": {
        const waitMs = jitteredConfigRetryMs(this.#shared.ports.random);
        const dueAtMs = Math.max(task.dueAtMs, this.clock.now() + waitMs);
        return this.putOff(task, null, "config_unavailable", dueAtMs);
      }
      case "found":
        if (task.runStartedAtMs + this.options.retentionMs < this.clock.now())
          return this.endDead(task, lookup.value, NOT_DELIVERED_IN_RETENTION);
        if (lookup.value.status !== "active") return this.hold(task);
        return this.#lanes.of(task.destinationId).offer(task, lookup.value);
      default:
        return lookup satisfies never;
    }
  }
}
