import { link, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemReason, UsageError } from "../domain/errors.ts";
import { answersAlive, removeOtherSigns, showAlive } from "./data-dir-alive.ts";
import { isAlive, isElsewhere } from "./data-dir-process.ts";
import type { ProcessIdentity } from "./data-dir-process.ts";
import { replaceFile } from "./replace-file.ts";

export interface Claimant extends ProcessIdentity {
  readonly token: string;
}
interface Claim extends Claimant {
  readonly released: boolean;
  /** The `run` directory that it was made in; claims of an earlier version lack it. */
  readonly madeIn?: string;
}
export type ClaimOutcome =
  | { readonly kind: "claimed"; readonly release: () => Promise<void> }
  | {
      readonly kind: "held";
      readonly pid: number;
      /** The data directory that its owner has, if this one is a copy that was made meanwhile; else null. */
      readonly copyOf: string | null;
    };

/** What link(2) says where a file system has no hard links: `temporary` is a file that this process has just made. */
const WITHOUT_LINKS: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/**
 * Claims the directory. Claims are files `owner-<n>.json`, of which the highest number counts. When its process has ended, the first
 * to make number n + 1 (link(2) makes it whole or not at all) is the owner. A number is never used
 * twice: a released claim stays, marked, so that a process which looked earlier cannot slip in behind it.
 */
export async function claim(runDir: string, claimant: Claimant): Promise<ClaimOutcome> {
  const alive = await showAlive(runDir, claimant.token);
  let outcome: ClaimOutcome | null = null;
  try {
    outcome = await claimOnceFree(runDir, claimant);
  } finally {
    if (outcome?.kind !== "claimed") await alive[Symbol.asyncDispose]();
  }
  if (outcome.kind === "held") return outcome;
  const { release } = outcome;
  return {
    kind: "claimed",
    release: async () => {
      await release();
      await alive[Symbol.asyncDispose]();
    },
  };
}

async function claimOnceFree(runDir: string, claimant: Claimant): Promise<ClaimOutcome> {
  for (;;) {
    const latest = await latestNumber(runDir);
    const held = latest === 0 ? null : await readClaim(runDir, latest);
    if (held === "gone") continue;
    if (held !== null && (await isHeld(runDir, held)))
      return { kind: "held", pid: held.pid, copyOf: await originalOf(runDir, latest, held) };
    const mine = latest + 1;
    if (!(await tryCreate(runDir, mine, claimant))) continue;
    // Numbers below a newer claim are cleaned up: ours may have been free only because of that.
    if ((await latestNumber(runDir)) !== mine) {
      await rm(file(runDir, mine), { force: true });
      continue;
    }
    await removeBelow(runDir, mine);
    await removeOtherSigns(runDir, claimant.token);
    const released: Claim = { ...claimant, released: true };
    return {
      kind: "claimed",
      release: () => replaceFile(file(runDir, mine), JSON.stringify(released)),
    };
  }
}

async function isHeld(runDir: string, held: Claim): Promise<boolean> {
  if (held.released) return false;
  return isElsewhere(held) ? answersAlive(runDir, held.token) : isAlive(held);
}

/** Returns the data directory in which the claim was made, if that is another one and still has it. */
async function originalOf(runDir: string, number: number, held: Claim): Promise<string | null> {
  const { madeIn, token } = held;
  if (madeIn === undefined || (await isSameDirectory(madeIn, runDir))) return null;
  const there = await readClaim(madeIn, number);
  return there !== null && there !== "gone" && there.token === token ? dirname(madeIn) : null;
}

/** Returns true also for one that is gone: it may have been moved. */
async function isSameDirectory(one: string, other: string): Promise<boolean> {
  try {
    const [a, b] = await Promise.all([stat(one), stat(other)]);
    return a.dev === b.dev && a.ino === b.ino;
  } catch {
    return true;
  }
}

async function tryCreate(runDir: string, number: number, claimant: Claimant): Promise<boolean> {
  const temporary = join(runDir, `${claimant.token}.tmp`);
  const content: Claim = { ...claimant, released: false, madeIn: runDir };
  await writeFile(temporary, JSON.stringify(content), { mode: 0o600 });
  try {
    await link(temporary, file(runDir, number));
    return true;
  } catch (error) {
    const reason = systemReason(error);
    if (reason === "EEXIST") return false;
    if (!WITHOUT_LINKS.has(reason)) throw error;
    throw new UsageError(
      `the file system of the data directory ${dirname(runDir)} makes no hard links (${reason}), as some network and exchange file systems: set RELAY_DATA_DIR to a directory on a local disk`,
      { cause: error },
    );
  } finally {
    await rm(temporary, { force: true });
  }
}

async function readClaim(runDir: string, number: number): Promise<Claim | null | "gone"> {
  let json: string;
  try {
    json = await readFile(file(runDir, number), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "gone";
    throw error;
  }
  try {
    return JSON.parse(json) as Claim;
  } catch {
    // Claims are linked whole: an unreadable one was left by a power cut, and no process holds it.
    return null;
  }
}

async function latestNumber(runDir: string): Promise<number> {
  return Math.max(0, ...(await numbers(runDir)));
}

async function numbers(runDir: string): Promise<number[]> {
  const names = await readdir(runDir);
  return names.flatMap((name) => {
    const match = /^owner-(\d+)\.json$/.exec(name);
    return match === null ? [] : [Number(match[1])];
  });
}

async function removeBelow(runDir: string, number: number): Promise<void> {
  for (const older of await numbers(runDir))
    if (older < number) await rm(file(runDir, older), { force: true });
}

function file(runDir: string, number: number): string {
  return join(runDir, `owner-${number}.json`);
}
