import type { Clock } from "../../domain/clock.ts";

/** Counts work in the background, so that a stop can wait for it. */
export class PendingWork {
  #count = 0;
  #waiting: (() => void)[] = [];

  /** The work must not reject. */
  track(work: Promise<unknown>): void {
    this.#count += 1;
    void work.then(() => {
      this.#count -= 1;
      if (this.#count > 0) return;
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const resolve of waiting) resolve();
    });
  }

  /** True once nothing is underway; false when that takes longer than `timeoutMs`, or `hurried` comes first. */
  async idle(clock: Clock, timeoutMs: number, hurried?: Promise<void>): Promise<boolean> {
    if (this.#count === 0) return true;
    let cancel = (): void => undefined;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      cancel = clock.schedule(timeoutMs, resolve);
      void hurried?.then(resolve);
    });
    cancel();
    return this.#count === 0;
  }
}
