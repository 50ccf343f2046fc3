import { randomUUID } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";

/**
 * Replaces a file by one with this content, which is on the disk then; a reader finds the old one or the whole new one.
 * That the name stays over a power cut, too, is for the caller: see `syncDirectoryBeside`.
 */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  mode = 0o600,
): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, content, { mode, flush: true });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
