import { Slots } from "../../domain/slots.ts";

/** Latest used blobs, bounded in bytes: the partitions that read one blob need not read it from the disk each. */
export class BlobCache {
  readonly #maxBytes: number;
  readonly #blobs = new Slots<Buffer>();
  /** Of each blob by its number, the one that was used longest ago first. */
  readonly #slots = new Map<number, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(seq: number): Buffer | undefined {
    const slot = this.#slots.get(seq);
    if (slot === undefined) return undefined;
    this.#slots.delete(seq);
    this.#slots.set(seq, slot);
    return this.#blobs.get(slot);
  }

  put(seq: number, blob: Buffer): void {
    this.remove(seq);
    this.#slots.set(seq, this.#blobs.add(blob));
    this.#bytes += blob.length;
    for (const oldest of this.#slots.keys()) {
      if (this.#bytes <= this.#maxBytes || oldest === seq) break;
      this.remove(oldest);
    }
  }

  remove(seq: number): void {
    const slot = this.#slots.get(seq);
    if (slot === undefined) return;
    this.#slots.delete(seq);
    this.#bytes -= this.#blobs.take(slot).length;
  }
}
