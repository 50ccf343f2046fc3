import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { tryKey } from "../../../domain/run-keys.ts";
import { Slots } from "../../../domain/slots.ts";

interface LiveTry {
  readonly deferrals: number;
  readonly waiting: (() => void)[];
  readonly successors: (() => void)[];
}

/** Tries taken in whose end is not durable yet, and what waits for it. */
export class LiveTries {
  readonly #tries = new Slots<LiveTry>();
  /** The slot of each try, by its key. */
  readonly #slots = new Map<string, number>();

  /**
   * Returns true if the try is new. A second copy joins the first: `complete` is called when that one ends. A task that was
   * put off may come back before its deferral is known to be durable: it waits for that, then `admitAgain` is called.
   */
  begin(task: DeliveryTask, complete: () => void, admitAgain: () => void): boolean {
    const key = tryKey(task);
    const slot = this.#slots.get(key);
    if (slot === undefined) {
      const first: LiveTry = { deferrals: task.deferrals, waiting: [complete], successors: [] };
      this.#slots.set(key, this.#tries.add(first));
      return true;
    }
    const live = this.#tries.get(slot);
    if (task.deferrals > live.deferrals) live.successors.push(admitAgain);
    else live.waiting.push(complete);
    return false;
  }

  /** Notes that the end of the try, or its successor, is durable. */
  end(task: DeliveryTask): void {
    const key = tryKey(task);
    const slot = this.#slots.get(key);
    if (slot === undefined) return;
    this.#slots.delete(key);
    const { waiting, successors } = this.#tries.take(slot);
    for (const complete of waiting) complete();
    for (const admitAgain of successors) admitAgain();
  }
}
