import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { syncDirectory, syncDirectoryBeside } from "../sync-files.ts";

/** Size of a segment. Its file is written once before use: a sync of new blocks or a new length waits for the file system's journal. */
export const SEGMENT_BYTES = 8 * 1024 * 1024;
/** A segment made beside the commits is written in steps of this size: syncs wait for each other, and one of it all takes milliseconds. */
const STEP_BYTES = 256 * 1024;
const PAGE_BYTES = 4_096;
const NAME = /^(\d+)\.segment$/;
/** Lies beside the directory: an earlier version wrote commits to it first, in the same form. */
const WRITE_AHEAD_FILE = "log.wal";

export function segmentPath(dir: string, id: number): string {
  return join(dir, `${id}.segment`);
}

/** Returns the numbers of the segments that there are; makes the directory if it is missing. */
export function listSegments(dir: string): number[] {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const earlier = join(dirname(dir), WRITE_AHEAD_FILE);
  if (existsSync(earlier)) renameSync(earlier, segmentPath(dir, 0));
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const id = entry.isFile() ? NAME.exec(entry.name)?.[1] : undefined;
    return id === undefined ? [] : [Number(id)];
  });
}

/** @throws {Error} when there is no room; nothing is left of the file then */
export function createSegment(dir: string, id: number): void {
  const path = segmentPath(dir, id);
  const file = openSync(path, "wx", 0o600);
  try {
    writeFileSync(file, Buffer.alloc(SEGMENT_BYTES));
    fsyncSync(file);
    syncDirectory(dir);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

/** Does the same as `createSegment`, beside the commits of this thread. */
export async function prepareSegment(dir: string, id: number): Promise<void> {
  const path = segmentPath(dir, id);
  try {
    await using file = await open(path, "wx", 0o600);
    const zeros = Buffer.alloc(STEP_BYTES);
    for (let at = 0; at < SEGMENT_BYTES; at += STEP_BYTES) {
      await file.writeFile(zeros);
      await file.datasync();
    }
    await syncDirectoryBeside(dir);
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

/**
 * Makes durable what a process that was killed had written, up to `endBytes`: writes it again, since a sync that has failed since then
 * may have lost it, and another one would not tell.
 */
export function rewriteSegment(dir: string, id: number, endBytes: number): void {
  const file = openSync(segmentPath(dir, id), "r+");
  try {
    const wholePagesBytes = Math.ceil(endBytes / PAGE_BYTES) * PAGE_BYTES;
    const bytes = Buffer.allocUnsafeSlow(Math.min(fstatSync(file).size, wholePagesBytes));
    const readBytes = readSync(file, bytes, 0, bytes.length, 0);
    writeSync(file, bytes, 0, readBytes, 0);
    fdatasyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Returns false for a segment that a crash left half made. */
export function isWhole(dir: string, id: number): boolean {
  const stats = statSync(segmentPath(dir, id), { throwIfNoEntry: false });
  return stats?.size === SEGMENT_BYTES;
}

/** Removes a segment beside the commits of this thread. */
export async function removeSegment(dir: string, id: number): Promise<void> {
  await rm(segmentPath(dir, id), { force: true });
}

export function damaged(path: string, what: string): Error {
  return new Error(`${path} ${what}: restore the log's whole directory from a backup`);
}
