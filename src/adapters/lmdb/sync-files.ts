import { closeSync, fdatasyncSync, fsyncSync, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { systemReason } from "../../domain/errors.ts";

/** Makes durable what any process has written to the file. */
export function syncFile(path: string): void {
  withFile(path, fdatasyncSync);
}

/**
 * Makes durable which names the directory holds: the sync of a file does not promise that its name is there after a power cut. Some
 * file systems have no such sync, and say EINVAL.
 */
export function syncDirectory(path: string): void {
  try {
    withFile(path, fsyncSync);
  } catch (error) {
    throwUnlessMissing(error);
  }
}

/** Does the same as `syncDirectory`, beside what this thread does. */
export async function syncDirectoryBeside(path: string): Promise<void> {
  await using directory = await open(path);
  await directory.sync().catch(throwUnlessMissing);
}

function throwUnlessMissing(error: unknown): void {
  if (systemReason(error) !== "EINVAL") throw error;
}

function withFile(path: string, sync: (file: number) => void): void {
  const file = openSync(path, "r");
  try {
    sync(file);
  } finally {
    closeSync(file);
  }
}
