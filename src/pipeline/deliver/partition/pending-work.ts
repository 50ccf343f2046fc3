import type { Clock } from "../../../domain/clock.ts";
import { WaitList } from "../../../domain/wait-list.ts";

/** Counts background work, so that a stop can wait for it. */
export class PendingWork {
  #count = 0;
  readonly #waitingForIdle = new WaitList();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Counts the work until it ends. Failures go to `onError`: an unhandled rejection would end the process. */
  track(work: Promise<unknown>): void {
    this.#count += 1;
    const ended = (): void => this.#ended();
    void work.then(ended, (error: unknown) => {
      this.#onError(error);
      ended();
    });
  }

  /** Resolves with true once nothing is underway; with false if that takes longer than `timeoutMs`, or `hurried` resolves first. */
  async idle(clock: Clock, timeoutMs: number, hurried?: Promise<void>): Promise<boolean> {
    if (this.#count === 0) return true;
    let cancel = (): void => undefined;
    await new Promise<void>((resolve) => {
      void this.#waitingForIdle.wait().then(resolve);
      cancel = clock.schedule(timeoutMs, resolve);
      void hurried?.then(resolve);
    });
    cancel();
    return this.#count === 0;
  }

  #ended(): void {
    this.#count -= 1;
    if (this.#count === 0) this.#waitingForIdle.wakeAll();
  }
}
