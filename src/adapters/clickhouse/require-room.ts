import { ClickHouseError, type ClickHouseClient } from "@clickhouse/client";
import { selectRows } from "./ask.ts";

/**
 * The engine ignores that a table's new definition did not fit on the disk, and puts the empty file in the place of the old one: the
 * table, whole until then, cannot be opened any more. A definition takes kilobytes; this is what recording and merges may take
 * between the look and the change.
 */
export const ROOM_TO_CHANGE_TABLES_BYTES = 64 * 1024 * 1024;

const MIB = 1024 * 1024;
/** Definitions are on the disk of this name, whatever other disks the rows are on. */
const SELECT_ROOM = "SELECT path, free_space AS free FROM system.disks WHERE name = 'default'";

/**
 * Looks whether a table can be made or changed without losing it. A server that does not tell (a right is missing, or it keeps
 * definitions elsewhere) is let be.
 * @throws {Error} that says where to make room
 */
export async function requireRoom(client: ClickHouseClient): Promise<void> {
  const disk = await findDisk(client);
  if (disk === null) return;
  const freeBytes = Number(disk.free);
  if (freeBytes >= ROOM_TO_CHANGE_TABLES_BYTES) return;
  throw new Error(
    `its tables are not brought up to date, since that could lose them on a full disk: make room for ${ROOM_TO_CHANGE_TABLES_BYTES / MIB} MiB at least on the disk of ${disk.path} (${Math.floor(freeBytes / MIB)} MiB are free)`,
  );
}

async function findDisk(
  client: ClickHouseClient,
): Promise<{ readonly path: string; readonly free: string } | null> {
  try {
    const [disk] = await selectRows<{ path: string; free: string }>(client, SELECT_ROOM);
    return disk ?? null;
  } catch (error) {
    if (error instanceof ClickHouseError) return null;
    throw error;
  }
}
