export const PIECE_BYTES = 1024 * 1024;
/** Two full batches. */
const MOST_FREE = 192;

/**
 * Memory that inserts are written into, one after the other. Made anew for each, it has V8 collect all garbage three times a full
 * batch, and look at the hundred thousand rows that wait each time: that took more than the writing.
 */
export class PiecePool {
  readonly #free: Buffer[] = [];

  /** Of `PIECE_BYTES`; what is in it is of no meaning. */
  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
  }

  /** What one insert had taken. One that it did not need goes: what a burst took does not stay for ever. */
  giveBack(pieces: readonly Buffer[]): void {
    this.#free.pop();
    for (const piece of pieces) if (this.#free.length < MOST_FREE) this.#free.push(piece);
  }
}
