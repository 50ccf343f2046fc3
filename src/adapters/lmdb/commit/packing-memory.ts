/** A commit that takes more gets memory of its own for the rest. */
const MAX_KEPT_BYTES = 4 * 1024 * 1024;

/**
 * Where commits are packed, one after the other in the same memory: V8 counts array buffers as its old generation, and would
 * collect all garbage several times a second where payloads of 10 KB come in.
 */
export class PackingMemory {
  #memory = Buffer.alloc(0);
  #takenBytes = 0;

  /** Begins the next commit: what was taken for the one before is overwritten. */
  begin(): void {
    const wantedBytes = Math.min(MAX_KEPT_BYTES, this.#takenBytes);
    if (wantedBytes > this.#memory.length)
      this.#memory = Buffer.allocUnsafeSlow(Math.min(MAX_KEPT_BYTES, 2 * wantedBytes));
    this.#takenBytes = 0;
  }

  take(sizeBytes: number): Buffer {
    const from = this.#takenBytes;
    this.#takenBytes += sizeBytes;
    return this.#takenBytes <= this.#memory.length
      ? this.#memory.subarray(from, this.#takenBytes)
      : Buffer.allocUnsafe(sizeBytes);
  }
}
