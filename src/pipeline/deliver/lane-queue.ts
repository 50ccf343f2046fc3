import type { DeliveryTask } from "../../domain/delivery-task.ts";

/** A task that waits in a lane. `done` is called once its end, or its successor, is durable. */
export interface QueuedTry {
  readonly task: DeliveryTask;
  /** Monotonic, ms. */
  readonly enqueuedMs: number;
}

/** First in, first out, with its size in bytes; bodies that tasks share are counted for each. */
export class LaneQueue {
  #items: (QueuedTry | undefined)[] = [];
  #head = 0;
  #bytes = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get first(): QueuedTry | undefined {
    return this.#items[this.#head];
  }

  push(item: QueuedTry): void {
    this.#items.push(item);
    this.#bytes += item.task.event.body.length;
  }

  shift(): QueuedTry | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#items[this.#head] = undefined;
    this.#head += 1;
    this.#bytes -= item.task.event.body.length;
    if (this.#head > 256 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  takeAll(): QueuedTry[] {
    const all: QueuedTry[] = [];
    for (let item = this.shift(); item !== undefined; item = this.shift()) all.push(item);
    return all;
  }
}
