const FIRST_CAPACITY = 16;

/**
 * First in, first out, in one array that is only ever replaced by a larger one. A Map, or an array with `push` and `shift`,
 * allocates a new table every so many entries. Where thousands of entries come and go each second, the old tables become
 * garbage in V8's old generation and keep alive what they held until they are collected. See "The collector" in
 * bench/what-was-tried.md.
 */
export class RingQueue<T> {
  #slots: (T | undefined)[] = Array.from({ length: FIRST_CAPACITY }, () => undefined);
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(value: T): void {
    if (this.#size === this.#slots.length) this.#grow();
    this.#slots[this.#slotOf(this.#size)] = value;
    this.#size += 1;
  }

  /** Removes and returns the oldest; undefined when there is none. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const value = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = this.#slotOf(1);
    this.#size -= 1;
    return value;
  }

  /** Returns the value at `index`, counted from the oldest; undefined beyond the newest. */
  at(index: number): T | undefined {
    return index >= 0 && index < this.#size ? this.#slots[this.#slotOf(index)] : undefined;
  }

  /**
   * Returns the index of the oldest for which `isReached` holds, provided it holds for all after it as well; `size` when there
   * is none.
   */
  lowerBound(isReached: (value: T) => boolean): number {
    let [low, high] = [0, this.#size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isReached(this.at(middle)!)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  clear(): void {
    while (this.#size > 0) this.shift();
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let index = 0; index < this.#size; index += 1) yield this.at(index)!;
  }

  /** Relies on the capacity being a power of two. */
  #slotOf(index: number): number {
    return (this.#head + index) & (this.#slots.length - 1);
  }

  #grow(): void {
    const values: (T | undefined)[] = [...this];
    const free = Array.from({ length: this.#slots.length }, () => undefined);
    this.#slots = values.concat(free);
    this.#head = 0;
  }
}
