import { tryKey } from "../../domain/delivery-task.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";

/** Tries taken in whose end is not durable yet, and who waits for it. A second copy joins the first. */
export class LiveTries {
  readonly #waiting = new Map<string, (() => void)[]>();

  get size(): number {
    return this.#waiting.size;
  }

  /** True when the try is new; otherwise `done` waits with the copy that is underway. */
  begin(task: DeliveryTask, done: () => void): boolean {
    const key = tryKey(task);
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined) {
      waiting.push(done);
      return false;
    }
    this.#waiting.set(key, [done]);
    return true;
  }

  /** Its end, or its successor, is durable. */
  end(task: DeliveryTask): void {
    const key = tryKey(task);
    const waiting = this.#waiting.get(key);
    this.#waiting.delete(key);
    for (const done of waiting ?? []) done();
  }
}
