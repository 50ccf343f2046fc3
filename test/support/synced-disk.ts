import fs from "node:fs";
import { join } from "node:path";
import { diskFailure, replaceFiles } from "./replace-files.ts";

const SECTOR_BYTES = 4_096;

/** Returns whether a sector of a file that was written and not synced has come to the disk all the same. */
export type ReachedDisk = (path: string) => boolean;

/**
 * Knows what a power cut leaves of the files below `root`: their contents when they were last synced, and the names in each
 * directory. Watches the syncs of this process; those of LMDB bypass it, and are told by `synced`.
 */
export class SyncedDisk implements Disposable {
  readonly #root: string;
  readonly #contents = new Map<number, Buffer>();
  readonly #names = new Map<string, ReadonlyMap<string, number>>();
  readonly #paths = new Map<number, string>();
  readonly #replaced: Disposable;
  #failing: string | null = null;
  #losing: string | null = null;

  constructor(root: string) {
    this.#root = root;
    const { openSync, fsyncSync, fdatasyncSync, promises } = fs;
    const { open } = promises;
    const watched = (sync: (file: number) => void) => (file: number) => {
      const path = this.#paths.get(file);
      if (this.#failing !== null && path?.includes(this.#failing) === true)
        throw diskFailure("EIO");
      sync(file);
      if (this.#losing === null || path?.includes(this.#losing) !== true) this.synced(path);
    };
    const ofFs = {
      openSync: (...args: Parameters<typeof openSync>) => {
        const file = openSync(...args);
        this.#paths.set(file, String(args[0]));
        return file;
      },
      fsyncSync: watched(fsyncSync),
      fdatasyncSync: watched(fdatasyncSync),
    };
    const ofPromises = {
      open: async (...args: Parameters<typeof open>) => {
        const handle = await open(...args);
        const { sync, datasync } = handle;
        const then = (done: () => Promise<void>) => async () => {
          await done.call(handle);
          this.synced(String(args[0]));
        };
        return Object.assign(handle, { sync: then(sync), datasync: then(datasync) });
      },
    };
    this.#replaced = replaceFiles(ofFs, ofPromises);
  }

  /** Notes that the file or directory is durable as it is now. */
  synced(path: string | undefined): void {
    if (path === undefined || !path.startsWith(this.#root)) return;
    const { ino } = fs.statSync(path);
    if (!fs.statSync(path).isDirectory()) this.#contents.set(ino, fs.readFileSync(path));
    else
      this.#names.set(
        path,
        new Map(fs.readdirSync(path).map((name) => [name, fs.statSync(join(path, name)).ino])),
      );
  }

  /** From now on, files of which the path has this part cannot be synced, or all can again. */
  fail(part: string | null): void {
    this.#failing = part;
  }

  /** From now on, files of which the path has this part are not synced, as if the process had been killed before it did, or all are again. */
  lose(part: string | null): void {
    this.#losing = part;
  }

  /** Writes what a power cut would leave, if it took all that was not synced, to the directory `to`. */
  leave(to: string, from = this.#root): void {
    fs.mkdirSync(to, { recursive: true });
    for (const [name, inode] of this.#names.get(from) ?? []) {
      const path = join(from, name);
      if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
        this.leave(join(to, name), path);
      else fs.writeFileSync(join(to, name), this.#contents.get(inode) ?? "");
    }
  }

  /** The same where files keep their names, as most file systems do it, and some of what was written has come to the disk. */
  leaveSome(to: string, reached: ReachedDisk, from = this.#root): void {
    fs.mkdirSync(to, { recursive: true });
    for (const entry of fs.readdirSync(from, { withFileTypes: true })) {
      const path = join(from, entry.name);
      if (entry.isDirectory()) this.leaveSome(join(to, entry.name), reached, path);
      if (!entry.isFile()) continue;
      const synced = this.#contents.get(fs.statSync(path).ino) ?? Buffer.alloc(0);
      const left = withSectors(synced, fs.readFileSync(path), () => reached(path));
      fs.writeFileSync(join(to, entry.name), left);
    }
  }

  [Symbol.dispose](): void {
    this.#replaced[Symbol.dispose]();
  }
}

function withSectors(synced: Buffer, written: Buffer, reached: () => boolean): Buffer {
  const left = Buffer.alloc(Math.max(synced.length, written.length));
  synced.copy(left);
  let length = synced.length;
  for (let from = 0; from < written.length; from += SECTOR_BYTES) {
    const sector = written.subarray(from, from + SECTOR_BYTES);
    if (sector.equals(synced.subarray(from, from + SECTOR_BYTES)) || !reached()) continue;
    sector.copy(left, from);
    length = Math.max(length, from + sector.length);
  }
  return left.subarray(0, length);
}
