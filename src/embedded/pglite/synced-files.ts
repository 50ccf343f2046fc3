import { fdatasyncSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Filesystem } from "@electric-sql/pglite/basefs";
import type { NodeFS } from "@electric-sql/pglite/nodefs";
import { syncDirectoryBeside } from "../../adapters/lmdb/sync-files.ts";

/** What the engine is told so that it syncs: by itself it is started with `-F`, and its `fdatasync` does nothing. */
const SYNCED = ["-c", "wal_sync_method=fsync"];
const NOT_SYNCED = "-F";

/** @param defaults what the engine is started with by itself */
export function syncedStart(defaults: readonly string[]): string[] {
  return [...defaults.filter((flag) => flag !== NOT_SYNCED), ...SYNCED];
}

export interface SyncedFiles {
  readonly filesystem: Filesystem;
  /** Until then nothing is synced: half of a database that is being made is of no use, and file by file it takes seconds. */
  startSyncing(): void;
}

/**
 * Returns the files of a directory for the engine, whose `fsync` reaches the disk. In its own the call succeeds and does nothing
 * (https://github.com/electric-sql/pglite/issues/1107): after a power cut, what the API had answered would be gone, and the database
 * with it if its pages had come to the disk in another order than its log.
 */
export function syncedFiles(Files: typeof NodeFS, directory: string): SyncedFiles {
  let isSyncing = false;
  class FilesWithSync extends Files {
    override async init(...[engine, options]: Parameters<NodeFS["init"]>) {
      const { emscriptenOpts } = await super.init(engine, options);
      const addSync: NonNullable<typeof options.preRun>[number] = (module) => {
        const nodeFiles = (module as unknown as EmscriptenModule).FS.filesystems.NODEFS;
        nodeFiles.stream_ops.fsync = ({ nfd }) => {
          if (isSyncing) nodeFiles.tryFSOperation(() => fdatasyncSync(nfd));
        };
      };
      return {
        emscriptenOpts: { ...emscriptenOpts, preRun: [addSync, ...emscriptenOpts.preRun!] },
      };
    }
  }
  return {
    filesystem: new FilesWithSync(directory),
    startSyncing() {
      isSyncing = true;
    },
  };
}

/** What is used here of Emscripten's file systems (its `libnodefs.js`). */
interface EmscriptenModule {
  readonly FS: {
    readonly filesystems: {
      readonly NODEFS: {
        readonly stream_ops: { fsync?: (stream: { readonly nfd: number }) => void };
        /** Turns the errors of Node into those of the engine. */
        tryFSOperation(operation: () => void): void;
      };
    };
  };
}

/** Files that are synced at the same time: more would wait for Node's four threads, each with its file open. */
const AT_ONCE = 8;

/** Syncs all files and folders below a directory, and itself: what was unpacked there is not in the engine's log. */
export async function syncTree(directory: string): Promise<void> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const syncs = entries.map((entry) => {
    const path = join(entry.parentPath, entry.name);
    return () => (entry.isDirectory() ? syncDirectoryBeside(path) : syncFile(path));
  });
  // Each takes the next one from the same iterator.
  const left = syncs.values();
  const syncRest = async (): Promise<void> => {
    for (const sync of left) await sync();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, syncRest));
  await syncDirectoryBeside(directory);
}

async function syncFile(path: string): Promise<void> {
  await using file = await open(path);
  await file.datasync();
}
