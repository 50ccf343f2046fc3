import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { ExpectedTasks } from "./expected-tasks.ts";
import { wallAheadMs, type Clocks } from "./wall-ahead.ts";

/** By how much the wall clock has to leave the steady one at once to count as set: tasks are then due at other times than their slots. */
const CLOCK_SET_MS = 1_000;

/** The slots that the tasks of a lane have in the plan of its rate limit (steady, ms). */
export class LaneSlots {
  readonly #clocks: Clocks;
  /** Those of tasks that were put off. */
  readonly #expected = new ExpectedTasks();
  /** Those of tasks in the lane: no other task's start is planned there. */
  #inLane = new WeakMap<DeliveryTask, number>();
  #isEmpty = true;
  #wallAheadMs: number;

  constructor(clocks: Clocks) {
    this.#clocks = clocks;
    this.#wallAheadMs = wallAheadMs(this.#clocks);
  }

  /** Whether none has been given out since the last `forget`. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Returns whether the wall clock was set since this was last asked. */
  wasClockSet(): boolean {
    const formerMs = this.#wallAheadMs;
    this.#wallAheadMs = wallAheadMs(this.#clocks);
    return Math.abs(this.#wallAheadMs - formerMs) > CLOCK_SET_MS;
  }

  /** Returns whether the task was put off and has a slot. */
  has(task: DeliveryTask): boolean {
    return this.#expected.has(task);
  }

  /** Returns the slot of a task that comes back, which is then no longer expected; null if it has none. */
  take(task: DeliveryTask): number | null {
    return this.#expected.take(task, this.#clocks.steadyNow());
  }

  /** Returns the same, or the slot of a task that is in the lane. */
  find(task: DeliveryTask): number | null {
    return this.#inLane.get(task) ?? this.take(task);
  }

  /** Notes the slot of a task that waits in the lane. */
  enter(task: DeliveryTask, slotMs: number): void {
    this.#isEmpty = false;
    this.#inLane.set(task, slotMs);
  }

  /** Notes the slot of a task that is put off until `dueAtMs`, wall clock. */
  putOff(dueAtMs: number, slotMs: number): void {
    this.#isEmpty = false;
    this.#expected.add(dueAtMs, slotMs, this.#clocks);
  }

  /** Passes the slot of a task in the lane on to the one that replaces it. */
  passOn(task: DeliveryTask, next: DeliveryTask): void {
    const slotMs = this.#inLane.get(task);
    if (slotMs !== undefined) this.#inLane.set(next, slotMs);
  }

  forget(): void {
    this.#expected.clear();
    this.#inLane = new WeakMap();
    this.#isEmpty = true;
  }
}
