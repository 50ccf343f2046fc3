const SLAB_BYTES = 128 * 1024;

/**
 * Hands out pieces of one block of memory after the other: a piece of 1 KB costs no allocation of its own. A block
 * lives as long as one of its pieces does, so pieces are for what is soon gone.
 */
export class ByteSlab {
  readonly #allocate: (sizeBytes: number) => Buffer;
  #block: Buffer = Buffer.alloc(0);
  #used = 0;

  /** `allocate` makes the blocks; they need not be zeroed. */
  constructor(allocate: (sizeBytes: number) => Buffer = (size) => Buffer.allocUnsafeSlow(size)) {
    this.#allocate = allocate;
  }

  /** A block with at least `sizeBytes` free from `at` on. What is used of it is told with `keep`. */
  reserve(sizeBytes: number): { readonly block: Buffer; readonly at: number } {
    if (this.#used + sizeBytes > this.#block.length) {
      // A large piece has a block to itself, and the current one goes on being used.
      if (sizeBytes > SLAB_BYTES / 4) return { block: this.#allocate(sizeBytes), at: 0 };
      this.#block = this.#allocate(SLAB_BYTES);
      this.#used = 0;
    }
    return { block: this.#block, at: this.#used };
  }

  /** The piece from `at` to `end` of a reserved block is in use now. */
  keep(block: Buffer, at: number, end: number): Buffer {
    if (block === this.#block) this.#used = end;
    return block.subarray(at, end);
  }
}
