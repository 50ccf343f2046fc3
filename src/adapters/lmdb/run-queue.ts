import type { Clock } from "../../domain/clock.ts";

/** Longest stretch of handing records over before the event loop's other work gets its turn. */
const SLICE_MS = 5;

/** Runs what is ready, one step each in turn, between the turns of the event loop. */
export class RunQueue {
  readonly #clock: Clock;
  #ready: (() => void)[] = [];
  #scheduled = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(step: () => void): void {
    this.#ready.push(step);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#run());
  }

  #run(): void {
    const endMs = this.#clock.monotonic() + SLICE_MS;
    const steps = this.#ready;
    this.#ready = [];
    let done = 0;
    while (done < steps.length && (done === 0 || this.#clock.monotonic() < endMs)) steps[done++]!();
    this.#ready = [...steps.slice(done), ...this.#ready];
    this.#scheduled = this.#ready.length > 0;
    if (this.#scheduled) setImmediate(() => this.#run());
  }
}
