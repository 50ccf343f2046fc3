import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";

const FORGET_MS = 600_000;

/** The tasks that come back at one time: how many, and the slot of the first in the plan (steady, ms). */
interface Expected {
  count: number;
  readonly plannedMs: number;
}

/** Tasks with a slot in the lane's plan that were put off and have yet to come back, by when they are due (wall clock, ms). */
export class ExpectedTasks {
  readonly #expected = new Map<number, Expected>();
  /** The same times, roughly in order: a Map finds its first key only by scanning past all deleted ones. */
  readonly #dueTimes = new RingQueue<number>();

  add(dueAtMs: number, plannedMs: number, nowMs: number): void {
    const known = this.#expected.get(dueAtMs);
    if (known === undefined) {
      this.#expected.set(dueAtMs, { count: 1, plannedMs });
      this.#dueTimes.push(dueAtMs);
    } else known.count += 1;
    this.#forgetOld(nowMs);
  }

  has({ deferrals, dueAtMs }: DeliveryTask): boolean {
    return deferrals > 0 && this.#expected.has(dueAtMs);
  }

  /** Takes the task out and returns its slot in the plan; null if it is not one of them. */
  take(task: DeliveryTask, nowMs: number): number | null {
    const expected = task.deferrals > 0 ? this.#expected.get(task.dueAtMs) : undefined;
    if (expected === undefined) return null;
    expected.count -= 1;
    if (expected.count === 0) this.#expected.delete(task.dueAtMs);
    this.#forgetOld(nowMs);
    return expected.plannedMs;
  }

  clear(): void {
    this.#expected.clear();
    this.#dueTimes.clear();
  }

  /** Forgets what never came back (deleted, held); tasks come back roughly in order. */
  #forgetOld(nowMs: number): void {
    const longPastMs = nowMs - FORGET_MS;
    for (let first = this.#dueTimes.at(0); first !== undefined; first = this.#dueTimes.at(0)) {
      if (first >= longPastMs && this.#expected.has(first)) return;
      this.#expected.delete(first);
      this.#dueTimes.shift();
    }
  }
}
