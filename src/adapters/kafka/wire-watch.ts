/**
 * Knows whether a connection to any broker was open during a stretch of time: what was produced while none
 * was has certainly not been written.
 */
export class WireWatch {
  #open = 0;
  #opened = 0;

  /** Begins such a stretch; the function returned tells, when called later, whether bytes may have reached a broker in between. */
  start(): () => boolean {
    const openAtStart = this.#open;
    const openedAtStart = this.#opened;
    return () => openAtStart > 0 || this.#opened > openedAtStart;
  }

  connected(): void {
    this.#open += 1;
    this.#opened += 1;
  }

  closed(): void {
    this.#open -= 1;
  }
}
