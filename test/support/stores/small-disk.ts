import { execFile } from "node:child_process";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { toError } from "../../../src/domain/thrown.ts";

const run = promisify(execFile);
const BALLAST = "ballast";
const CHUNK = Buffer.alloc(64 * 1024, 1);

/** A separate file system that fills up quickly. */
export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
  /** Takes all remaining space, and again what is freed meanwhile. */
  fill(): Promise<void>;
  /** Frees all of it. */
  free(): Promise<void>;
}

/** Mounts a tmpfs at a path, or at a temporary one. @throws {Error} where mounting is not allowed (it needs root, on Linux) */
export async function mountSmallDisk(sizeMb: number, at?: string): Promise<SmallDisk> {
  const path = at ?? (await mkdtemp(join(tmpdir(), "relay-disk-")));
  await mkdir(path, { recursive: true });
  try {
    await run("mount", ["-t", "tmpfs", "-o", `size=${sizeMb}m,mode=0700`, "tmpfs", path]);
  } catch (error) {
    if (at === undefined) await rm(path, { recursive: true, force: true });
    throw new Error("cannot mount a tmpfs: it needs root on Linux", { cause: error });
  }
  const ballast = join(path, BALLAST);
  return {
    path,
    fill: async () => {
      const file = await open(ballast, "a");
      try {
        for (;;) await file.write(CHUNK);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      } finally {
        await file.close();
      }
    },
    free: () => rm(ballast, { force: true }),
    [Symbol.asyncDispose]: async () => {
      await run("umount", ["--lazy", path]);
      if (at === undefined) await rm(path, { recursive: true, force: true });
    },
  };
}

/** Returns why none can be mounted here; null if it can. */
export async function smallDiskRefusal(): Promise<Error | null> {
  try {
    await using _disk = await mountSmallDisk(1);
    return null;
  } catch (error) {
    return toError(error);
  }
}
