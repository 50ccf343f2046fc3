import type { Row, StreamId } from "./layout.ts";

/** `base`, `next`, `seq`, `positionBytes`, `lengthBytes`, `hasChecksum`, `regionsInBlob`, `lastAppendedAtMs` and the tag. */
const FIELDS = 9;
const NEXT = 1;
const TAG = 8;
const FIRST_CAPACITY = 16;
const NO_NUMBERS = new Float64Array(0);

/**
 * Rows of one stream that follow one another, first in, first out, each with a number of the caller's. They are kept as numbers outside
 * V8's heap: as objects, nearly all of them lived just long enough to come into its old generation. See "The collector" in
 * bench/what-was-tried.md.
 */
export class RowRing {
  readonly #stream: StreamId;
  #numbers = NO_NUMBERS;
  #head = 0;
  #size = 0;

  constructor({ topic, partition }: StreamId) {
    this.#stream = { topic, partition };
  }

  get size(): number {
    return this.#size;
  }

  push(row: Row, tag = 0): void {
    if (this.#size === this.#capacity) this.#grow();
    const at = this.#placeOf(this.#size);
    const numbers = this.#numbers;
    numbers[at] = row.base;
    numbers[at + NEXT] = row.next;
    numbers[at + 2] = row.seq;
    numbers[at + 3] = row.positionBytes;
    numbers[at + 4] = row.lengthBytes;
    numbers[at + 5] = row.hasChecksum ? 1 : 0;
    numbers[at + 6] = row.regionsInBlob;
    numbers[at + 7] = row.lastAppendedAtMs;
    numbers[at + TAG] = tag;
    this.#size += 1;
  }

  /** Returns the row at `index`, counted from the oldest; undefined beyond the newest. */
  at(index: number): Row | undefined {
    if (index < 0 || index >= this.#size) return undefined;
    const at = this.#placeOf(index);
    const numbers = this.#numbers;
    return {
      topic: this.#stream.topic,
      partition: this.#stream.partition,
      base: numbers[at]!,
      next: numbers[at + NEXT]!,
      seq: numbers[at + 2]!,
      positionBytes: numbers[at + 3]!,
      lengthBytes: numbers[at + 4]!,
      hasChecksum: numbers[at + 5] === 1,
      regionsInBlob: numbers[at + 6]!,
      lastAppendedAtMs: numbers[at + 7]!,
    };
  }

  /** Returns the rows that hold offsets from `offset` on, oldest first and at most `limit`. */
  from(offset: number, limit = Infinity): Row[] {
    const rows: Row[] = [];
    for (let index = this.#indexFrom(offset); index < this.#size && rows.length < limit; index += 1)
      rows.push(this.at(index)!);
    return rows;
  }

  /** Removes the oldest row, if there is one. */
  shift(): void {
    if (this.#size === 0) return;
    this.#head = (this.#head + 1) & (this.#capacity - 1);
    this.#size -= 1;
  }

  /** Removes rows that begin before `offset`. */
  dropBelow(offset: number): void {
    while (this.#size > 0 && this.#numbers[this.#placeOf(0)]! < offset) this.shift();
  }

  /** Removes rows up to and with the last one with a tag of at most `tag`; tags go up. */
  dropTagged(tag: number): void {
    while (this.#size > 0 && this.#numbers[this.#placeOf(0) + TAG]! <= tag) this.shift();
  }

  clear(): void {
    this.#size = 0;
  }

  #indexFrom(offset: number): number {
    let [low, high] = [0, this.#size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#numbers[this.#placeOf(middle) + NEXT]! > offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  get #capacity(): number {
    return this.#numbers.length / FIELDS;
  }

  /** Relies on the capacity being a power of two. */
  #placeOf(index: number): number {
    return ((this.#head + index) & (this.#capacity - 1)) * FIELDS;
  }

  #grow(): void {
    const capacity = Math.max(FIRST_CAPACITY, this.#capacity * 2);
    const grown = new Float64Array(capacity * FIELDS);
    const headAt = this.#head * FIELDS;
    grown.set(this.#numbers.subarray(headAt));
    grown.set(this.#numbers.subarray(0, headAt), this.#numbers.length - headAt);
    this.#numbers = grown;
    this.#head = 0;
  }
}
