/** Keeps values, to be taken in any order, under small numbers, in one array that only ever grows: see `RingQueue` for why. */
export class Slots<T> {
  readonly #values: (T | undefined)[] = [];
  readonly #free: number[] = [];

  /** @returns the slot, which is reused once its value has been taken */
  add(value: T): number {
    const slot = this.#free.pop() ?? this.#values.length;
    this.#values[slot] = value;
    return slot;
  }

  /** Returns the value; the slot must be one that `add` returned, and not taken yet. */
  get(slot: number): T {
    return this.#values[slot]!;
  }

  /** Removes and returns the value; the slot must be as for `get`. */
  take(slot: number): T {
    const value = this.#values[slot]!;
    this.#values[slot] = undefined;
    this.#free.push(slot);
    return value;
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const value of this.#values) if (value !== undefined) yield value;
  }
}
