/** Bytes of records taken in and not complete: intake waits while there are too many. */
export class IntakeBudget {
  readonly #maxBytes: number;
  readonly #onChange: (bytes: number) => void;
  #parent: IntakeBudget | null;
  #bytes = 0;
  #waiting: (() => void)[] = [];

  constructor(
    maxBytes: number,
    parent: IntakeBudget | null = null,
    onChange = (_bytes: number): void => undefined,
  ) {
    this.#maxBytes = maxBytes;
    this.#parent = parent;
    this.#onChange = onChange;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    this.#onChange(this.#bytes);
    this.#parent?.add(bytes);
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
    this.#onChange(this.#bytes);
    this.#parent?.release(bytes);
    if (this.#bytes <= this.#maxBytes) this.wake();
  }

  /** Undefined when there is room now. */
  room(): Promise<void> | undefined {
    if (this.#bytes > this.#maxBytes) return this.#wait();
    return this.#parent?.room();
  }

  /** Lets everyone go who waits: nothing more will be taken in, or there is room. */
  wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** What it holds is no longer its parent's: records that are dropped are never released. */
  close(): void {
    this.#parent?.release(this.#bytes);
    this.#parent = null;
    this.wake();
  }

  async #wait(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    await this.#parent?.room();
  }
}
