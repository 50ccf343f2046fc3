import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { exists } from "../exists.ts";
import { cannotStart } from "./come-up.ts";

/** What a new store takes is far less; the tables that follow are not made with less than this either. */
const ROOM_FOR_NEW_STORE_BYTES = 64 * 1024 * 1024;
const MIB = 1024 * 1024;

/**
 * Refuses to make a store on a full disk: the engine ignores that its files did not fit, leaves them empty, and cannot open them later,
 * however much room there is by then.
 * @throws {UsageError} that says how much room to make, and where
 */
export async function refuseFullDisk(storeDir: string, database: string): Promise<void> {
  if (await exists(join(storeDir, "metadata", `${database}.sql`))) return;
  const { bavail, bsize } = await statfs(storeDir);
  const freeBytes = bavail * bsize;
  if (freeBytes >= ROOM_FOR_NEW_STORE_BYTES) return;
  throw cannotStart(
    `${Math.floor(freeBytes / MIB)} MiB are free on the disk of ${storeDir}: make room for ${ROOM_FOR_NEW_STORE_BYTES / MIB} MiB at least, or set RELAY_DATA_DIR to another directory`,
  );
}
