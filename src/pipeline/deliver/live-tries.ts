import { tryKey } from "../../domain/delivery-task.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";

interface LiveTry {
  readonly deferrals: number;
  readonly waiting: (() => void)[];
  readonly successors: (() => void)[];
}

/** Tries taken in whose end is not durable yet, and who waits for it. */
export class LiveTries {
  readonly #tries = new Map<string, LiveTry>();

  get size(): number {
    return this.#tries.size;
  }

  /**
   * True when the try is new. A second copy joins the first: `complete` is called when that ends.
   * A task that comes back before it is known here that it was put off durably (`admitAgain`) has to wait for that.
   */
  begin(task: DeliveryTask, complete: () => void, admitAgain: () => void): boolean {
    const key = tryKey(task);
    const live = this.#tries.get(key);
    if (live === undefined) {
      this.#tries.set(key, { deferrals: task.deferrals, waiting: [complete], successors: [] });
      return true;
    }
    if (task.deferrals > live.deferrals) live.successors.push(admitAgain);
    else live.waiting.push(complete);
    return false;
  }

  /** Its end, or its successor, is durable. */
  end(task: DeliveryTask): void {
    const key = tryKey(task);
    const live = this.#tries.get(key);
    this.#tries.delete(key);
    for (const complete of live?.waiting ?? []) complete();
    for (const admitAgain of live?.successors ?? []) admitAgain();
  }
}
