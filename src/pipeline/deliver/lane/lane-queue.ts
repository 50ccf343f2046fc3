import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";

/** A task that waits in a lane for its try to start. */
export interface QueuedTry {
  readonly task: DeliveryTask;
  /** Monotonic, ms. */
  readonly enqueuedMs: number;
}

/**
 * A first-in, first-out queue, and beside it the tasks that are not due yet, with the size of both in bytes; a body that tasks
 * share counts for each of them.
 */
export class LaneQueue {
  readonly #items = new RingQueue<QueuedTry>();
  /** Tasks not due yet, each with the function that cancels its timer. */
  readonly #early = new Map<DeliveryTask, () => void>();
  #bytes = 0;

  get length(): number {
    return this.#items.size;
  }

  /** The number of waiting tasks, those not due yet included. */
  get waiting(): number {
    return this.#items.size + this.#early.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get first(): QueuedTry | undefined {
    return this.#items.at(0);
  }

  pushEarly(task: DeliveryTask, cancel: () => void): void {
    this.#early.set(task, cancel);
    this.#bytes += task.event.body.length;
  }

  /** Removes a task that is now due. */
  removeEarly(task: DeliveryTask): void {
    if (this.#early.delete(task)) this.#bytes -= task.event.body.length;
  }

  push(item: QueuedTry): void {
    this.#items.push(item);
    this.#bytes += item.task.event.body.length;
  }

  shift(): QueuedTry | undefined {
    const item = this.#items.shift();
    if (item !== undefined) this.#bytes -= item.task.event.body.length;
    return item;
  }

  /** Takes out, one by one, what was put in by `enqueuedMs`. */
  *takeOlder(enqueuedMs: number): Iterable<QueuedTry> {
    for (
      let first = this.first;
      first !== undefined && first.enqueuedMs <= enqueuedMs;
      first = this.first
    )
      yield this.shift()!;
  }

  clear(): void {
    for (const cancel of this.#early.values()) cancel();
    this.#early.clear();
    this.#items.clear();
    this.#bytes = 0;
  }

  /** Takes out every task that is due. */
  takeAll(): QueuedTry[] {
    const all: QueuedTry[] = [];
    for (let item = this.shift(); item !== undefined; item = this.shift()) all.push(item);
    return all;
  }
}
