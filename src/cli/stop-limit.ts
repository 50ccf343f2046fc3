/** Longer than any part's own grace; what still hangs then is left behind, and the process ends within another second. */
const STOP_TIMEOUT_MS = 28_000;

/** Limits how long a stop may take, counted from when the program was told to; a start that hangs is left behind then, too. */
export class StopLimit implements Disposable {
  readonly #late: Promise<"late">;
  #isOver: (late: "late") => void = () => {};
  readonly #limitMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal, limitMs = STOP_TIMEOUT_MS) {
    this.#limitMs = limitMs;
    this.#late = new Promise((resolve) => (this.#isOver = resolve));
    if (signal.aborted) this.begin();
    else signal.addEventListener("abort", () => this.begin(), { once: true });
  }

  /** Starts the time; only the first call counts. */
  begin(): void {
    this.#timer ??= setTimeout(() => this.#isOver("late"), this.#limitMs);
  }

  race<T>(work: PromiseLike<T>): Promise<T | "late"> {
    return Promise.race([work, this.#late]);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
