import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

/**
 * Knows what a power cut leaves of the files below `root` when it takes all that was not synced: contents, and the names in each
 * directory. Watches the syncs of this process; those of LMDB bypass it, and are told by `synced`.
 */
export class SyncedDisk implements Disposable {
  readonly #root: string;
  readonly #contents = new Map<number, Buffer>();
  readonly #names = new Map<string, ReadonlyMap<string, number>>();
  readonly #paths = new Map<number, string>();
  readonly #restore: () => void;

  constructor(root: string) {
    this.#root = root;
    const { openSync, fsyncSync, fdatasyncSync, promises } = fs;
    const { open } = promises;
    const watched = (sync: (file: number) => void) => (file: number) => {
      sync(file);
      this.synced(this.#paths.get(file));
    };
    Object.assign(fs, {
      openSync: (...args: Parameters<typeof openSync>) => {
        const file = openSync(...args);
        this.#paths.set(file, String(args[0]));
        return file;
      },
      fsyncSync: watched(fsyncSync),
      fdatasyncSync: watched(fdatasyncSync),
    });
    promises.open = async (...args) => {
      const handle = await open(...args);
      const { sync, datasync } = handle;
      const then = (done: () => Promise<void>) => async () => {
        await done.call(handle);
        this.synced(String(args[0]));
      };
      return Object.assign(handle, { sync: then(sync), datasync: then(datasync) });
    };
    syncBuiltinESMExports();
    this.#restore = () => {
      Object.assign(fs, { openSync, fsyncSync, fdatasyncSync });
      promises.open = open;
      syncBuiltinESMExports();
    };
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

  /** Writes what a power cut would leave to the directory `to`. */
  leave(to: string, from = this.#root): void {
    fs.mkdirSync(to, { recursive: true });
    for (const [name, inode] of this.#names.get(from) ?? []) {
      const path = join(from, name);
      if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
        this.leave(join(to, name), path);
      else fs.writeFileSync(join(to, name), this.#contents.get(inode) ?? "");
    }
  }

  [Symbol.dispose](): void {
    this.#restore();
  }
}
