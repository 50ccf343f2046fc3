import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { NewRecord } from "../../../domain/log.ts";
import { inOrder } from "../../log/in-order.ts";
import { tryKey } from "../../../domain/run-keys.ts";
import { encodeTask } from "../../log/task-codec.ts";
import type { HeldEnd, Release } from "./choose-release.ts";
import { encodeHeldReleased, encodeHeldTask } from "./held-codec.ts";
import type { HeldHost } from "./held-host.ts";
import { HeldIndex } from "./held-index.ts";
import { ReleasePasses } from "./release-passes.ts";
import type { Again } from "./release-passes.ts";

/**
 * Tasks of paused and disabled destinations. They wait in the `held` log and are left alone until their destination changes
 * (or the sweep comes by); then they go back to `tasks`, as many as the lane has room for.
 */
export class HeldTasks {
  readonly index = new HeldIndex();
  readonly #host: HeldHost;
  readonly #passes: ReleasePasses;
  /** Tries that were released and have not come back through `tasks` yet. */
  readonly #inTransit = new Map<string, Set<string>>();
  #isCounted = false;

  constructor(host: HeldHost) {
    this.#host = host;
    this.#passes = new ReleasePasses(host, this.index, {
      isInTransit: (destinationId) => this.#inTransit.has(destinationId),
      letGo: (release, tasks) => this.#letGo(release, tasks),
      forget: (destinationId, offsets) => this.#forget(destinationId, offsets),
    });
  }

  /** Starts counting held tasks here: what the last owner left is known. */
  startCounting(): void {
    this.#isCounted = true;
    this.#host.onHeld(this.index.size);
  }

  /** Stops counting held tasks here: they count at the next owner, including those written only now. */
  stopCounting(): void {
    if (this.#isCounted) this.#host.onHeld(-this.index.size);
    this.#isCounted = false;
  }

  /** Holds the task. Resolves with it at the step it now waits at, once that is durable; null if it could not be written. */
  async hold(task: DeliveryTask): Promise<DeliveryTask | null> {
    const waiting: DeliveryTask = { ...task, deferrals: task.deferrals + 1 };
    const { partition } = this.#host.partition;
    const positions = await this.#host.copied(waiting, () =>
      this.#host.write([
        { topic: "held", key: task.event.endpointId, partition, value: encodeHeldTask(waiting) },
      ]),
    );
    const offset = positions?.[0]?.offset;
    if (offset === undefined) return null;
    this.index.note(offset, { kind: "task", task: waiting });
    if (this.#isCounted) this.#host.onHeld(1);
    // The destination may have been resumed while the record was on its way.
    this.release(task.destinationId);
    return waiting;
  }

  /** Notes a task that came through `tasks`. */
  onArrived(task: DeliveryTask): void {
    const tries = this.#inTransit.get(task.destinationId);
    if (tries?.delete(tryKey(task)) !== true || tries.size > 0) return;
    this.#inTransit.delete(task.destinationId);
    this.release(task.destinationId);
  }

  /** Lets nothing more go when ownership ends. */
  close(): void {
    this.#passes.close();
  }

  sweep(): void {
    this.#inTransit.clear();
    for (const destinationId of this.index.destinations()) this.release(destinationId);
  }

  /** Lets the held tasks of a destination go on if its status allows it. */
  release(destinationId: string): void {
    this.#passes.add(destinationId);
  }

  async #letGo(release: Release, tasks: ReadonlyMap<number, DeliveryTask>): Promise<Again> {
    const { destinationId, end } = release;
    return end === null
      ? this.#publish(destinationId, tasks)
      : this.#end(destinationId, tasks, end);
  }

  async #publish(destinationId: string, tasks: ReadonlyMap<number, DeliveryTask>): Promise<Again> {
    this.#inTransit.set(destinationId, new Set([...tasks.values()].map(tryKey)));
    // To this partition, even if their home is another by now: only here is it known what became of a copy released earlier
    // whose release was not durable.
    const records = [...tasks.values()].map((task): NewRecord => ({
      topic: "tasks",
      key: task.event.endpointId,
      partition: this.#host.partition.partition,
      value: encodeTask(task),
    }));
    const published = await this.#write(destinationId, [...tasks.keys()], records);
    if (!published) this.#inTransit.delete(destinationId);
    // They may all have come back before the append resolved.
    else if (!this.#inTransit.has(destinationId)) return "now";
    return published ? "no" : "later";
  }

  async #end(
    destinationId: string,
    tasks: ReadonlyMap<number, DeliveryTask>,
    { config, reason }: HeldEnd,
  ): Promise<Again> {
    const ends = [...tasks.values()].map((task) => this.#host.deadRecord(task, config, reason));
    if (!(await this.#write(destinationId, [...tasks.keys()], ends))) return "no";
    this.#host.onDead(ends.length);
    return "now";
  }

  /**
   * Writes what becomes of a destination's tasks, and the mark that they are no longer held. The appender puts the calls of one
   * pass together; a record that is refused holds up only its own destination.
   */
  async #write(
    destinationId: string,
    offsets: readonly number[],
    records: readonly NewRecord[],
  ): Promise<boolean> {
    if (!this.#host.mayStart()) return false;
    const { partition } = this.#host.partition;
    const mark: NewRecord = {
      topic: "held",
      key: destinationId,
      partition,
      value: encodeHeldReleased(destinationId, offsets),
    };
    for (const part of inOrder(this.#host.log, [records, [mark]]))
      if ((await this.#host.write(part)) === null) return false;
    this.#forget(destinationId, offsets);
    return true;
  }

  #forget(destinationId: string, offsets: readonly number[]): void {
    this.index.release(destinationId, offsets);
    if (this.#isCounted) this.#host.onHeld(-offsets.length);
  }
}
