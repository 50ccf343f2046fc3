export const PIECE_BYTES = 1024 * 1024;
/** Enough for two full batches. */
const MAX_FREE = 192;

/**
 * Memory that inserts are written into, one after another. Allocated anew for each, it makes V8 collect all garbage three times per
 * full batch and scan the hundred thousand waiting rows each time, which took longer than the writing itself.
 */
export class PiecePool {
  readonly #free: Buffer[] = [];

  /** Returns a buffer of `PIECE_BYTES` with undefined contents. */
  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
  }

  /** Takes back what one insert had taken. Drops a piece that it did not need, so that what a burst took does not stay forever. */
  giveBack(pieces: readonly Buffer[]): void {
    this.#free.pop();
    for (const piece of pieces) if (this.#free.length < MAX_FREE) this.#free.push(piece);
  }
}
