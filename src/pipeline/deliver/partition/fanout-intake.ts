import { pause } from "../../../domain/clock.ts";
import { EVENT_RUN, FANOUT_LATER, firstTry } from "../../../domain/delivery-task.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup } from "../../../domain/destination.ts";
import type { EventRecord } from "../../../domain/event.ts";
import type { OwnedPartition } from "../../../domain/log.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";
import { fanoutKey, runKey } from "../../../domain/run-keys.ts";
import { WaitList } from "../../../domain/wait-list.ts";
import { encodeOutcome } from "../../log/outcome-codec.ts";
import type { PartitionLanes } from "./partition-lanes.ts";
import { DOUBT_CHECK_MS } from "./partition-writer.ts";
import type { WriteRecords } from "./partition-writer.ts";
import { jitteredConfigRetryMs } from "../config-retry.ts";
import type { FanoutPlan } from "../ports.ts";
import type { RecoveredPartition } from "../recovery/recovery.ts";
import type { RunLedger } from "../recovery/run-ledger.ts";
import type { SharedDelivery } from "../shared-delivery.ts";
import { fanoutLaterKey, FIRST_STEP } from "./source-content.ts";

/** An event to be fanned out; `complete` is called once nothing is left to do for it. */
export interface Fanout {
  readonly event: EventRecord;
  /** The task as which it has waited, if it has. */
  readonly delayed: DeliveryTask | null;
  readonly complete: () => void;
  /** Called if it cannot be carried out: it is left to the next owner. */
  readonly leave: (error: unknown) => void;
}

type TakeTask = (task: DeliveryTask, complete: () => void) => void;

export interface FanoutHost {
  readonly shared: SharedDelivery;
  readonly partition: OwnedPartition;
  readonly lanes: Pick<PartitionLanes, "ownership" | "pending">;
  readonly write: WriteRecords;
  /** What the last owners left. */
  readonly ledger: RunLedger;
  readonly admit: TakeTask;
  /** Appends the task to the topic in which it waits for `waitMs`, in this partition. */
  readonly forward: (task: DeliveryTask, complete: () => void, waitMs: number) => void;
}

interface PlannedFanout extends FanoutPlan {
  readonly fanout: Fanout;
  /** Whether its record is already in the log. */
  readonly isRecorded: boolean;
}

/** Turns events into the first tries of their runs; the destinations that earlier owners chose stand. */
export class FanoutIntake {
  readonly #host: FanoutHost;
  #recordedFanouts: RecoveredPartition["fanouts"] = new Map();
  #tried: RecoveredPartition["tried"] = new Map();
  /** How many fan-outs are being taken in over several turns, and what came behind them: their plans would take memory, too. */
  #underway = 0;
  readonly #behind = new RingQueue<Fanout>();
  readonly #waitingToCatchUp = new WaitList();

  constructor(host: FanoutHost) {
    this.#host = host;
  }

  adopt({ fanouts, tried }: Pick<RecoveredPartition, "fanouts" | "tried">): void {
    this.#recordedFanouts = fanouts;
    this.#tried = tried;
  }

  /** Forgets what earlier owners chose: nothing they worked on comes any more. */
  forget(): void {
    this.adopt({ fanouts: new Map(), tried: new Map() });
  }

  /** Returns undefined unless fan-outs are being taken in over several turns; then a promise that resolves once none is. */
  caughtUp(): Promise<void> | undefined {
    return this.#underway === 0 ? undefined : this.#waitingToCatchUp.wait();
  }

  take(fanout: Fanout): void {
    if (this.#underway > 0) return this.#behind.push(fanout);
    const { event, delayed, complete } = fanout;
    if (!event.signatureValid) return complete();
    const earlierFanout = this.#earlierFanout(event);
    if (earlierFanout !== null)
      return this.#carryOut(this.#plan(fanout, [], earlierFanout), this.#host.admit);
    if (this.#host.ledger.judge(fanoutLaterKey(event), delayed ?? FIRST_STEP).kind !== "go")
      return complete();
    const found = this.#host.shared.destinationsOf(event.endpointId);
    if (found instanceof Promise)
      this.#host.lanes.pending.track(found.then((lookup) => this.#takeWith(fanout, lookup)));
    else this.#takeWith(fanout, found);
  }

  /** Sends the tries that an earlier owner chose to their home. Returns false if none did: then the record itself goes there. */
  sendHome(fanout: Fanout, sendTask: TakeTask): boolean {
    const earlierFanout = this.#earlierFanout(fanout.event);
    if (earlierFanout === null) return false;
    this.#carryOut(this.#plan(fanout, [], earlierFanout), sendTask);
    return true;
  }

  /** Returns the destinations in the event's fan-out record, if recovery found one. */
  #earlierFanout(event: EventRecord): readonly string[] | null {
    return this.#recordedFanouts.get(fanoutKey(event.id, EVENT_RUN)) ?? null;
  }

  #takeWith(fanout: Fanout, lookup: Lookup<readonly DestinationConfig[]>): void {
    if (!this.#host.partition.exclusive()) return this.#takeWhenExclusive(fanout);
    switch (lookup.kind) {
      case "missing":
        return this.#carryOut(this.#plan(fanout, [], null), this.#host.admit);
      case "found":
        return this.#carryOut(this.#plan(fanout, lookup.value, null), this.#host.admit);
      case "unavailable":
        return this.#takeLater(fanout);
      default:
        return lookup satisfies never;
    }
  }

  /**
   * Waits until ownership is certain. An owner that slept while another took over may find other destinations than that one
   * fanned out to, and its record would say for ever that they are awaited.
   */
  #takeWhenExclusive(fanout: Fanout): void {
    const { pending, ownership } = this.#host.lanes;
    const { clock, isOpen } = ownership;
    pending.track(
      pause(clock, DOUBT_CHECK_MS).then(() => (isOpen() ? this.take(fanout) : undefined)),
    );
  }

  /** Puts the event in a delay tier as a task without a destination. */
  #takeLater({ event, delayed, complete }: Fanout): void {
    const { metrics, clock, random } = this.#host.shared.ports;
    metrics.deferred("config_unavailable");
    const nowMs = clock.now();
    const waitMs = jitteredConfigRetryMs(random);
    const task: DeliveryTask = {
      ...firstTry(event, FANOUT_LATER, nowMs),
      deferrals: (delayed?.deferrals ?? 0) + 1,
      dueAtMs: nowMs + waitMs,
    };
    this.#host.forward(task, complete, waitMs);
  }

  #plan(
    fanout: Fanout,
    destinations: readonly DestinationConfig[],
    earlierFanout: readonly string[] | null,
  ): PlannedFanout {
    const { planFanout, clock } = this.#host.shared.ports;
    const { event } = fanout;
    const sentTo = this.#sentTo(event, destinations);
    const nowMs = clock.now();
    const { outcome, tasks } = planFanout(event, destinations, nowMs, earlierFanout, sentTo);
    return { outcome, tasks, fanout, isRecorded: earlierFanout !== null };
  }

  /** Returns the destinations that an earlier owner is known to have chosen: a try has ended, or its task is held or waits. */
  #sentTo(event: EventRecord, destinations: readonly DestinationConfig[]): string[] {
    const { ledger } = this.#host;
    const tried = this.#tried.get(fanoutKey(event.id, EVENT_RUN)) ?? [];
    const known = destinations
      .filter(({ status }) => status !== "active")
      .map(({ id }) => id)
      .filter((id) => ledger.has(runKey(event.id, id, EVENT_RUN)));
    return [...tried, ...known];
  }

  /** Carries out a plan; the fan-out is complete once its record is durable and all of its tasks are complete. */
  #carryOut(plan: PlannedFanout, take: TakeTask): void {
    const { tasks, fanout, isRecorded } = plan;
    if (tasks.length === 0) return fanout.complete();
    let open = tasks.length + 1;
    const oneDone = (): void => {
      open -= 1;
      if (open === 0) fanout.complete();
    };
    if (isRecorded) oneDone();
    else this.#record(plan, oneDone);
    const takeOne = (task: DeliveryTask): void => take(task, oneDone);
    if (tasks.length > this.#host.shared.options.maxTasksAtOnce) this.#takeInTurns(plan, takeOne);
    else for (const task of tasks) takeOne(task);
  }

  #takeInTurns({ tasks, fanout }: PlannedFanout, takeOne: (task: DeliveryTask) => void): void {
    const { shared, lanes } = this.#host;
    const { isOpen } = lanes.ownership;
    this.#underway += 1;
    const taken = shared.turns.each(tasks, takeOne, isOpen).catch(fanout.leave);
    lanes.pending.track(
      taken.then(() => {
        this.#underway -= 1;
        if (isOpen()) this.#takeBehind();
        if (this.#underway === 0) this.#waitingToCatchUp.wakeAll();
      }),
    );
  }

  #takeBehind(): void {
    while (this.#underway === 0) {
      const next = this.#behind.shift();
      if (next === undefined) return;
      try {
        this.take(next);
      } catch (error) {
        next.leave(error);
      }
    }
  }

  #record({ fanout, outcome }: PlannedFanout, onDurable: () => void): void {
    const { lanes, partition, write } = this.#host;
    const key = fanout.event.endpointId;
    const value = encodeOutcome(outcome);
    lanes.pending.track(
      write([{ topic: "attempts", key, partition: partition.partition, value }]).then((written) =>
        written === null ? undefined : onDurable(),
      ),
    );
  }
}
