import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { ROOM_TO_CHANGE_TABLES_BYTES } from "../../adapters/clickhouse/require-room.ts";
import { exists } from "../exists.ts";
import { cannotStart } from "./come-up.ts";

const MIB = 1024 * 1024;

/**
 * Refuses to make a store on a disk without the room that its tables are to be made with: the engine ignores that its files did not
 * fit, leaves them empty, and cannot open them later, however much room there is by then.
 * @throws {UsageError} that says how much room to make, and where
 */
export async function refuseFullDisk(storeDir: string, database: string): Promise<void> {
  if (await exists(join(storeDir, "metadata", `${database}.sql`))) return;
  const { bavail, bsize } = await statfs(storeDir);
  const freeBytes = bavail * bsize;
  if (freeBytes >= ROOM_TO_CHANGE_TABLES_BYTES) return;
  throw cannotStart(
    `${Math.floor(freeBytes / MIB)} MiB are free on the disk of ${storeDir}: make room for ${ROOM_TO_CHANGE_TABLES_BYTES / MIB} MiB at least, or set RELAY_DATA_DIR to another directory`,
  );
}
