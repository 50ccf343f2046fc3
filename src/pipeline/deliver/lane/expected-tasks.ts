import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";

const FORGET_MS = 600_000;

/** Tasks that come back at one time: how many, and the slot (steady, ms) of the first in the plan. */
interface Expected {
  count: number;
  readonly plannedMs: number;
}

/** Tasks that the limit of a lane has put off and that are still to come back, by when (wall clock, ms). */
export class ExpectedTasks {
  readonly #expected = new Map<number, Expected>();
  /** The same times about in order. A Map looks for its first one through all that were deleted. */
  readonly #dueTimes = new RingQueue<number>();

  add(dueAtMs: number, plannedMs: number, nowMs: number): void {
    const known = this.#expected.get(dueAtMs);
    if (known === undefined) {
      this.#expected.set(dueAtMs, { count: 1, plannedMs });
      this.#dueTimes.push(dueAtMs);
    } else known.count += 1;
    this.#forgetOld(nowMs);
  }

  /** Whether it is one of them. */
  has({ deferrals, dueAtMs }: DeliveryTask): boolean {
    return deferrals > 0 && this.#expected.has(dueAtMs);
  }

  /** The slot that the task has in the plan; null when it is not one of them. */
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

  /** They come back about in order; what never came back (deleted, held) is forgotten. */
  #forgetOld(nowMs: number): void {
    const longPastMs = nowMs - FORGET_MS;
    for (let first = this.#dueTimes.at(0); first !== undefined; first = this.#dueTimes.at(0)) {
      if (first >= longPastMs && this.#expected.has(first)) return;
      this.#expected.delete(first);
      this.#dueTimes.shift();
    }
  }
}
