import { open } from "node:fs/promises";
import { systemReason } from "../domain/errors.ts";

/**
 * Makes durable which names the directory holds: the sync of a file does not promise that its name is there after a power cut. Some
 * file systems have no such sync, and say EINVAL.
 */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path);
  await directory.sync().catch((error: unknown) => {
    if (systemReason(error) !== "EINVAL") throw error;
  });
}
