import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
import type { RootDatabase } from "lmdb";
import { systemReason } from "../../../domain/errors.ts";

/** What a transaction may add to the file beside blobs: pages of the tables. */
const TABLE_PAGES_BYTES = 1024 * 1024;
/** Made ahead, so that trims can still free something when the disk has become full. */
const AHEAD_BYTES = 4 * 1024 * 1024;
const ZEROS = Buffer.alloc(256 * 1024);
/** What a file system says that has no room for more, or lets nobody have more. */
const FULL: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

interface FileStats {
  readonly lastPageNumber: number;
  readonly pageSize: number;
}

/**
 * Keeps bytes at the end of LMDB's file that the file system already has a place for, and writes to them before each transaction,
 * since LMDB must find neither a disk that is full nor one that takes no writes: it describes a write that failed in a text of 100
 * bytes, which are too few ("Attempting to write page" in mdb.c of lmdb 3.5.6), and the process ended with `malloc(): invalid size`.
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
   * @throws {Error} when the disk is too full for the blobs, or cannot be written (a file system turns read-only once its disk fails)
   */
  make(blobBytes: readonly number[]): void {
    const { lastPageNumber, pageSize } = this.#root.getStats() as FileStats;
    const usedBytes = (lastPageNumber + 1) * pageSize;
    const endBytes = blobBytes.reduce((sum, bytes) => sum + bytes + pageSize, usedBytes);
    let sizeBytes = fstatSync(this.#file).size;
    try {
      while (sizeBytes < endBytes + AHEAD_BYTES)
        sizeBytes += writeSync(this.#file, ZEROS, 0, ZEROS.length, sizeBytes);
    } catch (error) {
      const isEnough = blobBytes.length === 0 || sizeBytes >= endBytes + TABLE_PAGES_BYTES;
      if (!isEnough || !FULL.has(systemReason(error))) throw error;
    }
    if (sizeBytes > usedBytes) writeSync(this.#file, ZEROS, 0, 1, sizeBytes - 1);
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}
