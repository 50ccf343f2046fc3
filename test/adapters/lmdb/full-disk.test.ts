import { join } from "node:path";
import { expect, it } from "vitest";
import { record } from "../../support/log-consumer.ts";
import { openTestLog } from "../../support/log-lmdb.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { mountSmallDisk, smallDiskRefusal } from "../../support/stores/small-disk.ts";

const MIB = 1024 * 1024;

const refused = await smallDiskRefusal();

it.skipIf(refused !== null && skipOrFail("a small disk", refused))(
  "regression: LMDB does not find the disk full: its text about a large write that found no room was too long for it, and ended the process",
  async () => {
    await using disk = await mountSmallDisk(64);
    await using log = await openTestLog(join(disk.path, "log"));
    await log.append([record("events", 0, "small")]);
    await disk.fill();
    await expect(log.append([record("events", 0, "x".repeat(12 * MIB))])).rejects.toMatchObject({
      code: "log_unavailable",
      message: expect.stringContaining("ENOSPC") as string,
    });
    await disk.free();
    const [position] = await log.append([record("events", 0, "y".repeat(12 * MIB))]);
    expect(position!.offset).toBe(1);
  },
);
