import { link, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { answersAlive, removeOtherSigns, showAlive } from "./data-dir-alive.ts";
import { isAlive, isElsewhere } from "./data-dir-process.ts";
import type { ProcessIdentity } from "./data-dir-process.ts";

export interface Claimant extends ProcessIdentity {
  readonly token: string;
}
interface Claim extends Claimant {
  readonly released: boolean;
}
export type ClaimOutcome =
  | { readonly kind: "claimed"; readonly release: () => Promise<void> }
  | { readonly kind: "held"; readonly pid: number };

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
    if (held !== null && (await isHeld(runDir, held))) return { kind: "held", pid: held.pid };
    const mine = latest + 1;
    if (!(await tryCreate(runDir, mine, claimant))) continue;
    // Numbers below a newer claim are cleaned up: ours may have been free only because of that.
    if ((await latestNumber(runDir)) !== mine) {
      await rm(file(runDir, mine), { force: true });
      continue;
    }
    await removeBelow(runDir, mine);
    await removeOtherSigns(runDir, claimant.token);
    return { kind: "claimed", release: () => write(runDir, mine, { ...claimant, released: true }) };
  }
}

async function isHeld(runDir: string, held: Claim): Promise<boolean> {
  if (held.released) return false;
  return isElsewhere(held) ? answersAlive(runDir, held.token) : isAlive(held);
}

async function tryCreate(runDir: string, number: number, claimant: Claimant): Promise<boolean> {
  const temporary = join(runDir, `${claimant.token}.tmp`);
  const content: Claim = { ...claimant, released: false };
  await writeFile(temporary, JSON.stringify(content), { mode: 0o600 });
  try {
    await link(temporary, file(runDir, number));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

async function write(runDir: string, number: number, content: Claim): Promise<void> {
  const temporary = join(runDir, `${content.token}.tmp`);
  await writeFile(temporary, JSON.stringify(content), { mode: 0o600 });
  await rename(temporary, file(runDir, number));
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
