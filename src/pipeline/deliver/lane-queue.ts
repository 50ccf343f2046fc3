import type { DeliveryTask } from "../../domain/delivery-task.ts";
import { RingQueue } from "../../domain/ring-queue.ts";

/** A task that waits in a lane for its try to start. */
export interface QueuedTry {
  readonly task: DeliveryTask;
  /** Monotonic, ms. */
  readonly enqueuedMs: number;
}

/** First in, first out, with its size in bytes; bodies that tasks share are counted for each. */
export class LaneQueue {
  readonly #items = new RingQueue<QueuedTry>();
  #bytes = 0;

  get length(): number {
    return this.#items.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get first(): QueuedTry | undefined {
    return this.#items.at(0);
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

  takeAll(): QueuedTry[] {
    const all: QueuedTry[] = [];
    for (let item = this.shift(); item !== undefined; item = this.shift()) all.push(item);
    return all;
  }
}
