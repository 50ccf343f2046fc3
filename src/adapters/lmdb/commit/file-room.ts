import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
import type { RootDatabase } from "lmdb";

/** What a transaction may add to the file beside blobs: pages of the tables. */
const LEAST_BYTES = 1024 * 1024;
/** Made ahead, so that trims can still free something when the disk has become full. */
const AHEAD_BYTES = 4 * 1024 * 1024;
const ZEROS = Buffer.alloc(256 * 1024);

interface FileStats {
  readonly lastPageNumber: number;
  readonly pageSize: number;
}

/**
 * Keeps bytes at the end of LMDB's file that the file system already has a place for, since LMDB must not find the disk full when it
 * writes a blob: it describes a write that finds no room in a text of 100 bytes, which are too few for one of a megabyte ("Attempting
 * to write page" in mdb.c of lmdb 3.5.6), and the process ended with `malloc(): invalid size`.
 */
export class FileRoom implements Disposable {
  readonly #root: Pick<RootDatabase, "getStats">;
  readonly #file: number;

  constructor(path: string, root: Pick<RootDatabase, "getStats">) {
    this.#root = root;
    this.#file = openSync(path, "r+");
  }

  /**
   * Makes room for a transaction that adds blobs of these sizes. One that adds none writes single pages, many of which LMDB has
   * free: it may go on without.
   * @throws {Error} when the disk is too full for the blobs
   */
  make(blobBytes: readonly number[]): void {
    const { lastPageNumber, pageSize } = this.#root.getStats() as FileStats;
    const endBytes = blobBytes.reduce(
      (sum, bytes) => sum + bytes + pageSize,
      (lastPageNumber + 1) * pageSize,
    );
    let sizeBytes = fstatSync(this.#file).size;
    try {
      while (sizeBytes < endBytes + AHEAD_BYTES)
        sizeBytes += writeSync(this.#file, ZEROS, 0, ZEROS.length, sizeBytes);
    } catch (error) {
      if (blobBytes.length > 0 && sizeBytes < endBytes + LEAST_BYTES) throw error;
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}
