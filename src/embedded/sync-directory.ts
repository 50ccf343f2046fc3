import { open } from "node:fs/promises";
import { systemReason } from "../domain/errors.ts";

/** As `syncDirectory` of the embedded log (`adapters/lmdb/sync-files.ts`), which is for its own thread: here others need not wait. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path);
  await directory.sync().catch((error: unknown) => {
    if (systemReason(error) !== "EINVAL") throw error;
  });
}
