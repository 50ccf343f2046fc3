import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/** What tells one process from every other, even from a later one with the same pid. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Null where neither /proc nor ps can tell. */
  readonly startedAt: string | null;
  readonly host: string;
  /** The namespace in which the pid counts: every container has its own. Null where there are none; claims of an earlier version lack it. */
  readonly pidNamespace?: string | null;
}

export function currentProcess(): ProcessIdentity {
  return {
    pid: process.pid,
    startedAt: startTime(process.pid),
    host: hostname(),
    pidNamespace: ownPidNamespace(),
  };
}

/** Returns whether its pid means nothing here, where another process has it, or none. */
export function isElsewhere({ pidNamespace }: ProcessIdentity): boolean {
  const own = ownPidNamespace();
  return own !== null && typeof pidNamespace === "string" && pidNamespace !== own;
}

function ownPidNamespace(): string | null {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return null;
  }
}

/** Returns whether it runs. Without a start time the host name must do: a container made anew over the same volume has another. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (!pidExists(identity.pid)) return false;
  const startedAt = startTime(identity.pid);
  if (startedAt === null || identity.startedAt === null) return identity.host === hostname();
  return startedAt === identity.startedAt;
}

/** Returns whether any process has this pid, even one of another user. */
export function pidExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Returns a text that differs between processes with the same pid, one after the other; null if neither /proc nor ps can tell. */
export function startTime(pid: number): string | null {
  return startTimeFromProc(pid) ?? startTimeFromPs(pid);
}

/** Linux: returns clock ticks since boot (field 22 of proc(5) stat), with the id of the boot. A zombie counts as ended. */
function startTimeFromProc(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command in parentheses may itself hold spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return "ended";
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot}/${fields[19]}`;
  } catch {
    return null;
  }
}

/** macOS: returns the start in one zone and language for all who ask, since `ps` writes local time in words; null if the pid is unknown. */
export function startTimeFromPs(pid: number): string | null {
  try {
    const answer = execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], {
      encoding: "utf8",
      env: { ...process.env, TZ: "UTC", LC_ALL: "C" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    return answer.trim() || null;
  } catch {
    return null;
  }
}
