import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";
import { wallAheadMs, type Clocks } from "./wall-ahead.ts";

const FORGET_MS = 600_000;

/** The tasks that come back at one time: how many, and the slot of the first in the plan (steady, ms). */
interface Expected {
  count: number;
  readonly plannedMs: number;
  /** When they are due, steady, ms: all would be long past as soon as the wall clock is set on, or the machine has slept. */
  readonly dueSteadyMs: number;
}

/** Tasks with a slot in the lane's plan that were put off and have yet to come back, by when they are due (wall clock, ms). */
export class ExpectedTasks {
  readonly #expected = new Map<number, Expected>();
  /** The same times, roughly in order: a Map finds its first key only by scanning past all deleted ones. */
  readonly #dueTimes = new RingQueue<number>();

  add(dueAtMs: number, plannedMs: number, clocks: Clocks): void {
    const steadyMs = clocks.steadyNow();
    const known = this.#expected.get(dueAtMs);
    if (known === undefined) {
      const dueSteadyMs = dueAtMs - wallAheadMs(clocks);
      this.#expected.set(dueAtMs, { count: 1, plannedMs, dueSteadyMs });
      this.#dueTimes.push(dueAtMs);
    } else known.count += 1;
    this.#forgetOld(steadyMs);
  }

  has({ deferrals, dueAtMs }: DeliveryTask): boolean {
    return deferrals > 0 && this.#expected.has(dueAtMs);
  }

  /** Takes the task out and returns its slot in the plan; null if it is not one of them. */
  take(task: DeliveryTask, steadyMs: number): number | null {
    const expected = task.deferrals > 0 ? this.#expected.get(task.dueAtMs) : undefined;
    if (expected === undefined) return null;
    expected.count -= 1;
    if (expected.count === 0) this.#expected.delete(task.dueAtMs);
    this.#forgetOld(steadyMs);
    return expected.plannedMs;
  }

  clear(): void {
    this.#expected.clear();
    this.#dueTimes.clear();
  }

  /** Forgets what never came back (deleted, held); tasks come back roughly in order. */
  #forgetOld(steadyMs: number): void {
    const longPastMs = steadyMs - FORGET_MS;
    for (let first = this.#dueTimes.at(0); first !== undefined; first = this.#dueTimes.at(0)) {
      if ((this.#expected.get(first)?.dueSteadyMs ?? -Infinity) >= longPastMs) return;
      this.#expected.delete(first);
      this.#dueTimes.shift();
    }
  }
}
