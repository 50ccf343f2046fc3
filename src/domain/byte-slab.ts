const SLAB_BYTES = 128 * 1024;

/**
 * Hands out pieces of one memory block after another, so that a piece of 1 KB costs no allocation of its own. A block lives as
 * long as any of its pieces, so use them for short-lived data only.
 */
export class ByteSlab {
  readonly #allocate: (sizeBytes: number) => Buffer;
  #block: Buffer = Buffer.alloc(0);
  #used = 0;

  /** `allocate` makes the blocks; they need not be zeroed. */
  constructor(allocate: (sizeBytes: number) => Buffer = (size) => Buffer.allocUnsafeSlow(size)) {
    this.#allocate = allocate;
  }

  /** Returns a block with at least `sizeBytes` free from `at` on. Call `keep` for the part of it that is used. */
  reserve(sizeBytes: number): { readonly block: Buffer; readonly at: number } {
    if (this.#used + sizeBytes > this.#block.length) {
      // A large piece gets a block to itself, and the current block stays in use.
      if (sizeBytes > SLAB_BYTES / 4) return { block: this.#allocate(sizeBytes), at: 0 };
      this.#block = this.#allocate(SLAB_BYTES);
      this.#used = 0;
    }
    return { block: this.#block, at: this.#used };
  }

  /** Marks a reserved block as used from `at` to `end`, and returns that piece. */
  keep(block: Buffer, at: number, end: number): Buffer {
    if (block === this.#block) this.#used = end;
    return block.subarray(at, end);
  }
}
