const BLOCK_BYTES = 128 * 1024;
/** Most blocks that are kept to be used again. */
const MAX_FREE = 8;

interface Block {
  readonly memory: Buffer;
  /** Pieces that were handed out and not given back. */
  pieces: number;
}

export interface ByteSlabOptions {
  readonly blockBytes?: number;
  /** Makes the blocks; they need not be zeroed. */
  readonly allocate?: (sizeBytes: number) => Buffer;
}

/**
 * Hands out pieces of one memory block after another, so that a piece of 1 KB costs no allocation of its own. A block lives as
 * long as any of its pieces, so use them for short-lived data only. One whose pieces have all been given back is used again: V8
 * counts blocks as its old generation, and collects all garbage when many are made.
 */
export class ByteSlab {
  readonly #blockBytes: number;
  readonly #allocate: (sizeBytes: number) => Buffer;
  #current: Block | null = null;
  #used = 0;
  readonly #blocks = new WeakMap<ArrayBufferLike, Block>();
  readonly #free: Block[] = [];

  constructor({
    blockBytes = BLOCK_BYTES,
    allocate = (sizeBytes) => Buffer.allocUnsafeSlow(sizeBytes),
  }: ByteSlabOptions = {}) {
    this.#blockBytes = blockBytes;
    this.#allocate = allocate;
  }

  /** Returns a block with at least `sizeBytes` free from `at` on. Call `keep` for the part of it that is used. */
  reserve(sizeBytes: number): { readonly block: Buffer; readonly at: number } {
    const current = this.#current;
    if (current !== null && this.#used + sizeBytes <= this.#blockBytes)
      return { block: current.memory, at: this.#used };
    // A large piece gets a block to itself, and the current block stays in use.
    if (sizeBytes > this.#blockBytes / 4) return { block: this.#allocate(sizeBytes), at: 0 };
    const next = this.#free.pop() ?? this.#make();
    this.#current = next;
    this.#used = 0;
    if (current !== null) this.#reuseIfFree(current);
    return { block: next.memory, at: 0 };
  }

  /** Marks a reserved block as used from `at` to `end`, and returns that piece. */
  keep(block: Buffer, at: number, end: number): Buffer {
    if (block === this.#current?.memory) {
      this.#used = end;
      this.#current.pieces += 1;
    }
    return block.subarray(at, end);
  }

  /** Gives back a piece that nobody will look at any more: it may be overwritten. At most once for each. */
  giveBack(piece: Uint8Array): void {
    const block = this.#blocks.get(piece.buffer);
    if (block === undefined) return;
    block.pieces -= 1;
    this.#reuseIfFree(block);
  }

  #make(): Block {
    const block = { memory: this.#allocate(this.#blockBytes), pieces: 0 };
    this.#blocks.set(block.memory.buffer, block);
    return block;
  }

  #reuseIfFree(block: Block): void {
    if (block.pieces === 0 && block !== this.#current && this.#free.length < MAX_FREE)
      this.#free.push(block);
  }
}
