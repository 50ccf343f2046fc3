/** Keeps values that leave in any order under small numbers, in one array that only ever grows: see `RingQueue` for why. */
export class Slots<T> {
  readonly #values: (T | undefined)[] = [];
  readonly #free: number[] = [];

  /** @returns the slot, which is given again once its value was taken */
  add(value: T): number {
    const slot = this.#free.pop() ?? this.#values.length;
    this.#values[slot] = value;
    return slot;
  }

  /** The slot must be one that `add` gave, and not taken yet. */
  get(slot: number): T {
    return this.#values[slot]!;
  }

  /** The value, which leaves; of `slot` the same holds as in `get`. */
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
