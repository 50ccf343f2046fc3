import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { open } from "lmdb";
import type { Database, RootDatabase } from "lmdb";

export interface Environment {
  readonly root: RootDatabase<Buffer, Buffer>;
  readonly places: Database<Buffer, Buffer>;
  readonly blobs: Database<Buffer, Buffer>;
  readonly index: Database<Buffer, Buffer>;
  readonly starts: Database<Buffer, Buffer>;
  readonly refs: Database<Buffer, Buffer>;
  readonly groups: Database<string, string>;
}

/**
 * Opens the files; the threads of one process share one LMDB environment.
 * `overlappingSync` is off: a commit writes the pages, syncs them, then writes and syncs the meta page,
 * so a transaction that returned is durable and one that failed left nothing behind.
 */
export function openEnvironment(path: string, mapSizeBytes: number): Environment {
  // LMDB would make a directory that anyone may look into, and its file holds bodies.
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const root = open<Buffer, Buffer>({
    path,
    mapSize: mapSizeBytes,
    overlappingSync: false,
    maxDbs: 8,
    noSubdir: true,
    encoding: "binary",
    keyEncoding: "binary",
  });
  const binary = { encoding: "binary", keyEncoding: "binary" } as const;
  return {
    root,
    places: root.openDB<Buffer, Buffer>("places", binary),
    blobs: root.openDB<Buffer, Buffer>("blobs", binary),
    index: root.openDB<Buffer, Buffer>("index", binary),
    starts: root.openDB<Buffer, Buffer>("starts", binary),
    refs: root.openDB<Buffer, Buffer>("refs", binary),
    groups: root.openDB<string, string>("groups", {
      encoding: "string",
      keyEncoding: "ordered-binary",
    }),
  };
}

/**
 * Returns whether LMDB refuses everything until the files are reopened, as it does once it could not write its meta page (MDB_PANIC).
 * A reader is told; to a writer lmdb-js says EINVAL, for it does not look whether the transaction was begun.
 */
export function isLockedUp({ root, groups }: Environment): boolean {
  try {
    root.resetReadTxn();
    groups.get("any");
    return false;
  } catch {
    return true;
  }
}
