/** Latest used blobs, bounded in bytes: the partitions that read one blob need not read it from the disk each. */
export class BlobCache {
  readonly #maxBytes: number;
  readonly #blobs = new Map<number, Buffer>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(seq: number): Buffer | undefined {
    const blob = this.#blobs.get(seq);
    if (blob !== undefined) {
      this.#blobs.delete(seq);
      this.#blobs.set(seq, blob);
    }
    return blob;
  }

  put(seq: number, blob: Buffer): void {
    this.remove(seq);
    this.#blobs.set(seq, blob);
    this.#bytes += blob.length;
    for (const [oldest] of this.#blobs) {
      if (this.#bytes <= this.#maxBytes || oldest === seq) break;
      this.remove(oldest);
    }
  }

  remove(seq: number): void {
    const blob = this.#blobs.get(seq);
    if (blob === undefined) return;
    this.#blobs.delete(seq);
    this.#bytes -= blob.length;
  }
}
