/**
 * Completion of the records of one topic and partition, in any order. `watermark` is the lowest offset that
 * is not complete: what may be committed. Each record carries a note (of the time it was taken in), so that
 * the note of the lowest incomplete one can be committed with it.
 */
export class OffsetTracker<Note> {
  #watermark: number;
  #next: number;
  readonly #open = new Map<number, { readonly note: Note; done: boolean }>();

  constructor(firstOffset: number) {
    this.#watermark = firstOffset;
    this.#next = firstOffset;
  }

  get watermark(): number {
    return this.#watermark;
  }

  /** The offset after the last one taken in. */
  get next(): number {
    return this.#next;
  }

  /** Records taken in and not below the watermark. */
  get openCount(): number {
    return this.#open.size;
  }

  /** The note of the lowest incomplete record; undefined when all are complete. */
  get lowestNote(): Note | undefined {
    return this.#open.get(this.#watermark)?.note;
  }

  /** Offsets may have gaps (compaction, markers of transactions) but never go back. */
  begin(offset: number, note: Note): void {
    if (this.#open.size === 0) this.#watermark = offset;
    this.#open.set(offset, { note, done: false });
    this.#next = offset + 1;
  }

  complete(offset: number): void {
    const record = this.#open.get(offset);
    if (record === undefined || record.done) return;
    record.done = true;
    if (offset !== this.#watermark) return;
    // Insertion order is offset order, so the first that is not done is the new watermark.
    for (const [at, { done }] of this.#open) {
      if (!done) {
        this.#watermark = at;
        return;
      }
      this.#open.delete(at);
    }
    this.#watermark = this.#next;
  }
}
