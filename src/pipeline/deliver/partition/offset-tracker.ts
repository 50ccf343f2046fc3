import { RingQueue } from "../../../domain/ring-queue.ts";

interface OpenRecord<Note> {
  readonly offset: number;
  /** Undefined once it is done: it is not needed then, and the span may be long. */
  note: Note | undefined;
  done: boolean;
}

/**
 * Tracks which records of one topic and partition are complete, in any order. `watermark` is the lowest offset that is not
 * complete: what may be committed. Each record carries a note from when it was taken in, so that the note of the lowest
 * incomplete one can be committed with it.
 */
export class OffsetTracker<Note> {
  #next: number;
  /** In offset order; the first is not done. */
  readonly #open = new RingQueue<OpenRecord<Note>>();
  #notDone = 0;

  constructor(firstOffset: number) {
    this.#next = firstOffset;
  }

  get watermark(): number {
    return this.#open.at(0)?.offset ?? this.#next;
  }

  /** The offset after the last one taken in. */
  get next(): number {
    return this.#next;
  }

  /** Records taken in and not complete. */
  get openCount(): number {
    return this.#notDone;
  }

  /** Records taken in and not below the watermark, complete or not. */
  get spanCount(): number {
    return this.#open.size;
  }

  /** The note of the lowest incomplete record; undefined when all are complete. */
  get lowestNote(): Note | undefined {
    return this.#open.at(0)?.note;
  }

  /** Takes in a record. Offsets may have gaps (compaction, transaction markers) but never go back. */
  begin(offset: number, note: Note): void {
    this.#open.push({ offset, note, done: false });
    this.#notDone += 1;
    this.#next = offset + 1;
  }

  complete(offset: number): void {
    const record = this.#find(offset);
    if (record === undefined || record.done) return;
    record.done = true;
    record.note = undefined;
    this.#notDone -= 1;
    while (this.#open.at(0)?.done) this.#open.shift();
  }

  #find(offset: number): OpenRecord<Note> | undefined {
    // Where it would be without gaps, which are rare.
    const expected = this.#open.at(offset - this.watermark);
    if (expected?.offset === offset) return expected;
    const found = this.#open.at(this.#open.lowerBound((record) => record.offset >= offset));
    return found?.offset === offset ? found : undefined;
  }
}
