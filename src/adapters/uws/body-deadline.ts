/**
 * So much of a body has to come within such a time, in ms, if that is not its end. uWebSockets.js asks for as much within 8 to 12 s, or
 * closes the connection without a word.
 */
const STEP_BYTES = 160 * 1_024;
const MAX_STEP_MS = 7_000;

/** The time for the next step of a body that has not come whole with its head. */
export class BodyDeadline {
  readonly #timer: NodeJS.Timeout;
  #stepBytes = 0;
  #isDue = false;

  constructor(onMissed: () => void) {
    this.#timer = setTimeout(() => {
      this.#isDue = true;
      // After the next poll: what has come while the loop was held up is read only then. If that is not the rest, its sender may have
      // had to wait for room.
      setImmediate(() => {
        if (this.#isDue) onMissed();
      });
    }, MAX_STEP_MS);
  }

  onReceived(sizeBytes: number): void {
    this.#stepBytes += sizeBytes;
    if (this.#isDue || this.#stepBytes >= STEP_BYTES) this.restart();
  }

  /** Begins the step anew, also after it was missed. */
  restart(): void {
    this.#stepBytes = 0;
    this.#isDue = false;
    this.#timer.refresh();
  }

  stop(): void {
    this.#isDue = false;
    clearTimeout(this.#timer);
  }
}
