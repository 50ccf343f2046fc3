import type { Clock } from "../../../domain/clock.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../../domain/destination.ts";
import type { Logger } from "../../../domain/logger.ts";
import type { Log, NewRecord, OwnedPartition, Position } from "../../../domain/log.ts";
import { inOrder } from "../../log/in-order.ts";
import { tryKey } from "../../../domain/run-keys.ts";
import { encodeTask } from "../../log/task-codec.ts";
import { DESTINATION_DELETED, HELD_PAST_RETENTION } from "../try/dead-reasons.ts";
import { decodeHeld, encodeHeldReleased, encodeHeldTask } from "./held-codec.ts";
import { HeldIndex } from "./held-index.ts";

const CHUNK_TASKS = 200;
const CHUNK_BYTES = 4 * 1_048_576;
/** How often a lane without room is checked again. */
const ROOM_CHECK_MS = 200;

export interface HeldHost {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly partition: OwnedPartition;
  readonly retentionMs: number;
  readonly log: Pick<Log, "writesWhole">;
  mayStart(): boolean;
  lookUp(destinationId: string): MaybeLater<Lookup<DestinationConfig>>;
  hasRoom(destinationId: string): boolean;
  /** Resolves with null if the records could not be made durable. */
  write(records: readonly NewRecord[]): Promise<readonly Position[] | null>;
  /** Returns the record that ends a run without a request. */
  deadRecord(task: DeliveryTask, config: DestinationConfig | null, reason: string): NewRecord;
  onHeld(change: number): void;
  /** Counts runs that ended `dead`, durably. */
  onDead(count: number): void;
}

/**
 * Tasks of paused and disabled destinations. They wait in the `held` log and are left alone until their destination changes
 * (or the sweep comes by); then they go back to `tasks`, as many as the lane has room for.
 */
export class HeldTasks {
  readonly index = new HeldIndex();
  readonly #host: HeldHost;
  readonly #releasing = new Set<string>();
  readonly #checks = new Map<string, () => void>();
  /** Tries that were released and have not come back through `tasks` yet. */
  readonly #inTransit = new Map<string, Set<string>>();
  #isCounted = false;

  constructor(host: HeldHost) {
    this.#host = host;
  }

  /** Starts counting held tasks here: what the last owner left is known. */
  count(): void {
    this.#isCounted = true;
    this.#host.onHeld(this.index.size);
  }

  /** Stops counting held tasks here: they count at the next owner, including those written only now. */
  uncount(): void {
    if (this.#isCounted) this.#host.onHeld(-this.index.size);
    this.#isCounted = false;
  }

  /** Holds the task. Resolves with it at the step it now waits at, once that is durable; null if it could not be written. */
  async hold(task: DeliveryTask): Promise<DeliveryTask | null> {
    const waiting: DeliveryTask = { ...task, deferrals: task.deferrals + 1 };
    const { partition } = this.#host.partition;
    const positions = await this.#host.write([
      { topic: "held", key: task.event.endpointId, partition, value: encodeHeldTask(waiting) },
    ]);
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
    if (this.#inTransit.size === 0) return;
    const tries = this.#inTransit.get(task.destinationId);
    if (tries?.delete(tryKey(task)) !== true || tries.size > 0) return;
    this.#inTransit.delete(task.destinationId);
    this.release(task.destinationId);
  }

  /** Cancels all checks when ownership ends. */
  close(): void {
    for (const cancel of this.#checks.values()) cancel();
    this.#checks.clear();
  }

  sweep(): void {
    this.#inTransit.clear();
    for (const destinationId of this.index.destinations()) this.release(destinationId);
  }

  /** Lets the held tasks of a destination go on if its status allows it. */
  release(destinationId: string): void {
    if (!this.index.has(destinationId) || this.#releasing.has(destinationId)) return;
    this.#releasing.add(destinationId);
    void this.#releaseNext(destinationId)
      .catch((error: unknown) => {
        // The sweep comes back to it.
        this.#host.logger.error({ destinationId, err: error }, "held.release_failed");
        return "no" as const;
      })
      .then((again) => {
        this.#releasing.delete(destinationId);
        if (again === "now") this.release(destinationId);
        if (again === "later") this.#releaseLater(destinationId);
      });
  }

  /** Keeps one timer per destination, however often it is called. */
  #releaseLater(destinationId: string): void {
    if (this.#checks.has(destinationId) || !this.#host.mayStart()) return;
    const cancel = this.#host.clock.schedule(ROOM_CHECK_MS, () => {
      this.#checks.delete(destinationId);
      this.release(destinationId);
    });
    this.#checks.set(destinationId, cancel);
  }

  async #releaseNext(destinationId: string): Promise<"now" | "later" | "no"> {
    if (!this.#host.mayStart() || this.#inTransit.has(destinationId)) return "no";
    const lookup = await this.#host.lookUp(destinationId);
    switch (lookup.kind) {
      case "unavailable":
        return "no";
      case "missing":
        return this.#end(destinationId, this.index.next(destinationId, CHUNK_TASKS), {
          config: null,
          reason: DESTINATION_DELETED,
        });
      case "found": {
        const expired = this.#expired(destinationId);
        if (expired.length > 0)
          return this.#end(destinationId, expired, {
            config: lookup.value,
            reason: HELD_PAST_RETENTION,
          });
        if (lookup.value.status !== "active") return "no";
        if (!this.#host.hasRoom(destinationId)) return "later";
        return this.#publishNext(destinationId);
      }
      default:
        return lookup satisfies never;
    }
  }

  #expired(destinationId: string): number[] {
    const { clock, retentionMs } = this.#host;
    return this.index.begunBefore(destinationId, clock.now() - retentionMs, CHUNK_TASKS);
  }

  async #publishNext(destinationId: string): Promise<"now" | "later" | "no"> {
    const chunk = await this.#read(this.index.next(destinationId, CHUNK_TASKS));
    // Lost with the log they were in: the sweep checks again.
    if (chunk.size === 0) return "no";
    this.#inTransit.set(destinationId, new Set([...chunk.values()].map(tryKey)));
    // To this partition, even if their home is another by now: only here is it known what became of a copy released earlier
    // whose release was not durable.
    const records = [...chunk.values()].map((task): NewRecord => ({
      topic: "tasks",
      key: task.event.endpointId,
      partition: this.#host.partition.partition,
      value: encodeTask(task),
    }));
    const published = await this.#letGo(destinationId, chunk, records);
    if (!published) this.#inTransit.delete(destinationId);
    // They may all have come back before the append resolved.
    else if (!this.#inTransit.has(destinationId)) return "now";
    return published ? "no" : "later";
  }

  async #end(
    destinationId: string,
    offsets: readonly number[],
    { config, reason }: { readonly config: DestinationConfig | null; readonly reason: string },
  ): Promise<"now" | "no"> {
    const chunk = await this.#read(offsets);
    if (chunk.size === 0) return "no";
    const ends = [...chunk.values()].map((task) => this.#host.deadRecord(task, config, reason));
    if (!(await this.#letGo(destinationId, chunk, ends))) return "no";
    this.#host.onDead(ends.length);
    return "now";
  }

  /** Writes what becomes of the tasks, and the mark that they are no longer held. */
  async #letGo(
    destinationId: string,
    chunk: ReadonlyMap<number, DeliveryTask>,
    records: readonly NewRecord[],
  ): Promise<boolean> {
    const offsets = [...chunk.keys()];
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
    this.index.release(destinationId, offsets);
    if (this.#isCounted) this.#host.onHeld(-offsets.length);
    return true;
  }

  /** Reads the tasks at these offsets, ascending; only the first of them if they are large. */
  async #read(offsets: readonly number[]): Promise<Map<number, DeliveryTask>> {
    const wanted = new Set(offsets);
    const chunk = new Map<number, DeliveryTask>();
    const [first] = wanted;
    let bytes = 0;
    if (first === undefined) return chunk;
    for await (const records of this.#host.partition.read("held", first)) {
      for (const { offset, value } of records) {
        if (!wanted.delete(offset)) continue;
        const entry = decodeHeld(value);
        if (entry.kind === "task") chunk.set(offset, entry.task);
        bytes += value.length;
        if (bytes > CHUNK_BYTES) return chunk;
      }
      if (wanted.size === 0) break;
    }
    return chunk;
  }
}
