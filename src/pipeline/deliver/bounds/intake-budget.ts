import { BytesInFlight } from "./bytes-in-flight.ts";

/** A record counts for no more of a budget: two that are larger, at receivers that hang, leave the rest to others. */
const LARGEST_SHARE = 1 / 3;

/** Bytes of records taken in and not complete: intake waits while there are too many. */
export class IntakeBudget {
  /** The part of them that is sent. */
  readonly inFlight: BytesInFlight;
  readonly #maxBytes: number;
  readonly #onChange: (bytes: number) => void;
  #parent: IntakeBudget | null;
  #bytes = 0;
  /** Of these, beyond what records count for here and in the parent. */
  #uncounted = 0;
  #uncountedAbove = 0;
  #waiting: (() => void)[] = [];

  constructor(
    maxBytes: number,
    parent: IntakeBudget | null = null,
    onChange = (_bytes: number): void => undefined,
  ) {
    this.#maxBytes = maxBytes;
    this.#parent = parent;
    this.#onChange = onChange;
    this.inFlight = new BytesInFlight(maxBytes, parent?.inFlight ?? null);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Half of it is taken, or half of its parent. */
  get isTight(): boolean {
    return this.#counted * 2 > this.#maxBytes || (this.#parent?.isTight ?? false);
  }

  /** A record is taken in. */
  add(bytes: number): void {
    this.#take(bytes, 1);
  }

  /** A record is complete. */
  release(bytes: number): void {
    this.#take(bytes, -1);
  }

  /** Undefined when there is room now. */
  room(): Promise<void> | undefined {
    if (this.#counted > this.#maxBytes) return this.#wait();
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
    if (this.#parent !== null) this.#parent.#change(-this.#bytes, -this.#uncountedAbove);
    this.#parent = null;
    this.wake();
  }

  get #counted(): number {
    return this.#bytes - this.#uncounted;
  }

  /** @returns how much of the record does not count */
  #take(recordBytes: number, sign: 1 | -1): number {
    const most = Math.floor(this.#maxBytes * LARGEST_SHARE);
    const uncounted = Math.max(0, recordBytes - most);
    this.#change(sign * recordBytes, sign * uncounted);
    if (this.#parent !== null) this.#uncountedAbove += sign * this.#parent.#take(recordBytes, sign);
    return uncounted;
  }

  #change(bytes: number, uncounted: number): void {
    this.#bytes += bytes;
    this.#uncounted += uncounted;
    this.#onChange(this.#bytes);
    if (bytes < 0 && this.#counted <= this.#maxBytes) this.wake();
  }

  async #wait(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    await this.#parent?.room();
  }
}
