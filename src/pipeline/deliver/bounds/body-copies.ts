import { RingQueue } from "../../../domain/ring-queue.ts";

/** A body up to this size is small: its copy does not wait for those of large ones. */
const SMALL_BODY_BYTES = 64 * 1_024;
/** The room for copies of small bodies: tens of thousands of usual webhooks. */
const SMALL_ROOM_BYTES = 64 * 1_048_576;
/** Those of large bodies have the budget, and no less than this: an event of one may go to several destinations. */
const MIN_LARGE_ROOM_BYTES = 4 * 1_048_576;
/** What a copy takes beside its body. */
const HEAD_BYTES = 1_024;

interface Waiting {
  readonly bytes: number;
  readonly begin: () => void;
}

/**
 * Bounds the copies of bodies on their way to the log. The destinations of an event share its body in memory, but each task
 * that waits for its next try is a record with a copy of its own, and when all of a thousand receivers are down, all are made at
 * once. Copies for which there is no room are made later; partitions take turns.
 */
export class BodyCopies {
  readonly #small: CopyRoom;
  readonly #large: CopyRoom;

  /** @param budgetBytes the process's budget of records taken in */
  constructor(budgetBytes: number) {
    this.#small = new CopyRoom(SMALL_ROOM_BYTES);
    this.#large = new CopyRoom(Math.max(budgetBytes, MIN_LARGE_ROOM_BYTES));
  }

  /** Runs `write`, which copies the body and resolves once the copy is no longer needed, when there is room for it. */
  async run<T>(partition: number, body: Uint8Array, write: () => Promise<T>): Promise<T> {
    const room = body.length <= SMALL_BODY_BYTES ? this.#small : this.#large;
    const bytes = body.length + HEAD_BYTES;
    const whenFree = room.take(partition, bytes);
    if (whenFree !== undefined) await whenFree;
    try {
      return await write();
    } finally {
      room.giveBack(bytes);
    }
  }
}

class CopyRoom {
  readonly #maxBytes: number;
  #bytes = 0;
  /** By partition; the one whose turn is next comes first. */
  readonly #waiting = new Map<number, RingQueue<Waiting>>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns undefined if there is room now, otherwise a promise that resolves once the bytes are taken. */
  take(partition: number, bytes: number): Promise<void> | undefined {
    if (this.#waiting.size === 0 && this.#fits(bytes)) {
      this.#bytes += bytes;
      return undefined;
    }
    return new Promise((begin) => this.#queueOf(partition).push({ bytes, begin }));
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
    for (const [partition, queue] of this.#waiting) {
      const next = queue.at(0)!;
      if (!this.#fits(next.bytes)) return;
      queue.shift();
      this.#bytes += next.bytes;
      // To the end of the turns, which this loop comes to again.
      this.#waiting.delete(partition);
      if (queue.size > 0) this.#waiting.set(partition, queue);
      next.begin();
    }
  }

  /** The first always fits: a body may be larger than the room. */
  #fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#maxBytes;
  }

  #queueOf(partition: number): RingQueue<Waiting> {
    let queue = this.#waiting.get(partition);
    if (queue === undefined) this.#waiting.set(partition, (queue = new RingQueue()));
    return queue;
  }
}
