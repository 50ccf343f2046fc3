import { closeSync, openSync, readSync } from "node:fs";
import type { Place } from "../layout.ts";
import { segmentPath } from "./segment-files.ts";

/** Segments kept open at most; a reader that is far behind goes through many. */
const MAX_OPEN = 32;

/** Reads blobs where the commit thread wrote them. */
export class SegmentReader implements Disposable {
  readonly #dir: string;
  readonly #files = new Map<number, number>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** @throws {Error} when the file is gone or too short */
  read({ segment, positionBytes, lengthBytes }: Place): Buffer {
    const bytes = Buffer.allocUnsafeSlow(lengthBytes);
    const readBytes = readSync(this.#open(segment), bytes, 0, lengthBytes, positionBytes);
    if (readBytes !== lengthBytes)
      throw new Error(`${segmentPath(this.#dir, segment)} is shorter than it was`);
    return bytes;
  }

  /** Closes a segment that will be overwritten. */
  forget(segment: number): void {
    const file = this.#files.get(segment);
    if (file === undefined) return;
    this.#files.delete(segment);
    closeSync(file);
  }

  [Symbol.dispose](): void {
    for (const segment of this.#files.keys()) this.forget(segment);
  }

  #open(segment: number): number {
    const opened = this.#files.get(segment) ?? openSync(segmentPath(this.#dir, segment), "r");
    this.#files.delete(segment);
    this.#files.set(segment, opened);
    for (const oldest of this.#files.keys()) {
      if (this.#files.size <= MAX_OPEN) break;
      this.forget(oldest);
    }
    return opened;
  }
}
