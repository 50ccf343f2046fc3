import { randomUUID } from "node:crypto";
import {
  access,
  chmod,
  constants,
  mkdir,
  readdir,
  realpath,
  rm,
  writeFile,
} from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { systemReason, UsageError } from "../domain/errors.ts";
import { claim } from "./data-dir-claim.ts";
import { refuseForeignDirectory } from "./data-dir-content.ts";
import { checkFormat, noteFormat } from "./data-dir-format.ts";
import { currentProcess } from "./data-dir-process.ts";
import { exists } from "./exists.ts";

export interface OwnedDataDir extends AsyncDisposable {
  readonly kind: "owner";
}
export interface AttachedDataDir {
  readonly kind: "attached";
  readonly ownerPid: number;
  readonly ownerIs: DataDirOwner;
}
/** The stores that a command serves end with it, within seconds, so no other process attaches to them. */
export type DataDirOwner = "relay" | "command";

/** File in `run` that is there while a command has the directory. */
const COMMAND_FILE = "command";

/**
 * Makes the directory if it is missing (0700), with `run` in it for sockets, and claims it for this process. If another living
 * process has it, says which: the caller then attaches to what that one serves, or refuses. A claim ends with its process, even
 * after `kill -9`.
 * @throws {UsageError} when the directory cannot be made or written, is another program's, holds what this user may not read, was made
 *   by a newer relay, or is a copy of one whose owner runs
 */
export async function claimDataDir(
  path: string,
  as: DataDirOwner = "relay",
): Promise<OwnedDataDir | AttachedDataDir> {
  const dir = await makeDirectory(resolve(path));
  const runDir = join(dir, "run");
  const outcome = await claim(runDir, { ...currentProcess(), token: randomUUID() }).catch(
    (cause: unknown) => refuseForeignFiles(dir, cause),
  );
  const commandFile = join(runDir, COMMAND_FILE);
  if (outcome.kind === "held") {
    if (outcome.copyOf !== null)
      throw new UsageError(
        `the data directory ${dir} is a copy of ${outcome.copyOf} that was made while the relay with process id ${outcome.pid} ran there, so it may be incomplete: copy it anew while that relay is stopped, or remove ${runDir} to start with the copy as it is`,
      );
    const ownerIs = (await exists(commandFile)) ? "command" : "relay";
    return { kind: "attached", ownerPid: outcome.pid, ownerIs };
  }
  if (as === "command") await writeFile(commandFile, "", { mode: 0o600 });
  else {
    await rm(commandFile, { force: true });
    await noteFormat(dir);
  }
  return { kind: "owner", [Symbol.asyncDispose]: outcome.release };
}

async function makeDirectory(path: string): Promise<string> {
  let dir: string;
  try {
    await makeWithParents(path);
    dir = await realpath(path);
    await refuseForeignDirectory(dir);
    await makeWithParents(join(dir, "run"));
    await chmod(join(dir, "run"), 0o700);
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new UsageError(
      `the data directory ${path} cannot be written (${systemReason(cause)}): set RELAY_DATA_DIR to a directory that this user may write`,
      { cause },
    );
  }
  await checkStores(dir).catch((cause: unknown) => refuseForeignFiles(dir, cause));
  await checkFormat(dir).catch((cause: unknown) => refuseForeignFiles(dir, cause));
  return dir;
}

/** Finds stores that may not be opened, which would themselves say that the disk is full, or that a backup is needed. */
async function checkStores(dir: string): Promise<void> {
  for (const name of ["postgres", "clickhouse", "log"])
    await readdir(join(dir, name)).catch((error: unknown) => {
      if (isForbidden(error)) throw error;
    });
}

function isForbidden(error: unknown): boolean {
  return ["EACCES", "EPERM"].includes(systemReason(error));
}

/** Explains a refusal by the system: a command that once ran as root leaves its files to root. */
function refuseForeignFiles(dir: string, cause: unknown): never {
  if (!isForbidden(cause)) throw cause;
  throw new UsageError(
    `the data directory ${dir} holds files that this user may not use (${systemReason(cause)}): start as the user who owns them, or give all of it to this one (chown -R)`,
    { cause },
  );
}

/**
 * Makes directories step by step: `mkdir` with `recursive` loops forever where the file system says ENOENT although the parent
 * is there (`/proc`).
 */
async function makeWithParents(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const reason = systemReason(error);
    if (reason === "EEXIST") return;
    if (reason !== "ENOENT" || (await exists(dirname(path)))) throw error;
    await makeWithParents(dirname(path));
    await mkdir(path, { mode: 0o700 });
  }
}
