import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

type Replacements = Readonly<Record<string, unknown>>;

/** Replaces functions of this process's `node:fs` and `node:fs/promises`, for whoever imported them by name as well, until it is disposed. */
export function replaceFiles(ofFs: Replacements, ofPromises: Replacements): Disposable {
  const restores = [replace(fs, ofFs), replace(fs.promises, ofPromises)];
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      for (const restore of restores) restore();
      syncBuiltinESMExports();
    },
  };
}

/** Returns what a file system function throws when the disk is told to fail. */
export function diskFailure(code: "EIO" | "ENOSPC"): Error {
  return Object.assign(new Error(`${code}: the disk was told to fail`), { code });
}

function replace(target: object, replacements: Replacements): () => void {
  const originals = Object.keys(replacements).map((name) => [name, Reflect.get(target, name)]);
  Object.assign(target, replacements);
  return () => Object.assign(target, Object.fromEntries(originals));
}
