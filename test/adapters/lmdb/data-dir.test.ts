import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import fs, {
  chmod,
  chown,
  cp,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { UsageError } from "../../../src/domain/errors.ts";
import { claim } from "../../../src/embedded/data-dir-claim.ts";
import {
  currentProcess,
  isAlive,
  startTime,
  startTimeFromPs,
} from "../../../src/embedded/data-dir-process.ts";
import { claimDataDir } from "../../../src/embedded/data-dir.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { replaceFiles } from "../../support/replace-files.ts";
import { until } from "../../support/wait-for.ts";

const childPath = fileURLToPath(new URL("../../support/log-claim-child.ts", import.meta.url));

async function startChild(dir: string): Promise<{ child: ChildProcess; kind: string }> {
  const child = spawn(process.execPath, ["--import", "tsx", childPath, dir], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  const [line] = await once(child.stdout, "data");
  return { child, kind: String(line).trim() };
}

/** Runs `work` without access to one file of a directory; root may access everything, so it becomes another user meanwhile. */
async function withoutAccess<T>(dir: string, name: string, work: () => Promise<T>): Promise<T> {
  await chmod(join(dir, name), 0);
  if (process.getuid?.() !== 0) return work();
  const nobody = 65_534;
  for (const path of [dir, join(dir, "run")]) await chown(path, nobody, nobody);
  process.seteuid?.(nobody);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
  }
}

describe("claimDataDir", () => {
  it.each(["data", "deep/data"])(
    "makes %s and its run directory for this user alone",
    async (path) => {
      await using base = await temporaryDir();
      const dir = join(base.path, path);
      const claimed = await claimDataDir(dir);
      expect(claimed.kind).toBe("owner");
      expect((await stat(dir)).mode & 0o777).toBe(0o700);
      expect((await stat(join(dir, "run"))).mode & 0o777).toBe(0o700);
      if (claimed.kind === "owner") await claimed[Symbol.asyncDispose]();
    },
  );

  it("the log makes its directory for this user alone, whoever made the one around it", async () => {
    await using base = await temporaryDir();
    const dir = join(base.path, "log");
    await using _log = await openTestLog(dir);
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
  });

  it("a copy that was made while its relay ran is told from the original: one was told to stop that relay", async () => {
    await using base = await temporaryDir();
    const [original, copy] = [join(base.path, "original"), join(base.path, "copy")];
    const claimed = await claimDataDir(original);
    await cp(original, copy, { recursive: true, filter: (path) => !path.endsWith(".alive") });
    const error = await claimDataDir(copy).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toContain(`is a copy of ${await realpath(original)} `);
    expect((await claimDataDir(original)).kind).toBe("attached");
    await rm(join(copy, "run"), { recursive: true });
    const started = await claimDataDir(copy);
    expect(started.kind).toBe("owner");
    for (const one of [started, claimed])
      if (one.kind === "owner") await one[Symbol.asyncDispose]();
  });

  it("a directory that was moved while its relay ran is still that relay's", async () => {
    await using base = await temporaryDir();
    const [from, to] = [join(base.path, "from"), join(base.path, "to")];
    const claimed = await claimDataDir(from);
    await rename(from, to);
    expect((await claimDataDir(to)).kind).toBe("attached");
    await rename(to, from);
    if (claimed.kind === "owner") await claimed[Symbol.asyncDispose]();
  });

  it.each(["run/owner-1.json", "log", "postgres", "clickhouse"])(
    "%s of another user is told in one line with what to do: a command that ran as root once left a stack",
    async (name) => {
      await using dir = await temporaryDir();
      await mkdir(join(dir.path, "run"));
      if (name.endsWith(".json")) await writeFile(join(dir.path, name), "{}");
      else await mkdir(join(dir.path, name));
      const error = await withoutAccess(dir.path, name, () =>
        claimDataDir(dir.path).catch((thrown: unknown) => thrown),
      );
      expect(error).toBeInstanceOf(UsageError);
      expect((error as Error).message).toContain("holds files that this user may not use (EACCES)");
    },
  );

  it("regression: a file system without hard links is told: it was taken for files of another user", async () => {
    await using dir = await temporaryDir();
    const refusing = async () =>
      Promise.reject(Object.assign(new Error("EPERM"), { code: "EPERM" }));
    using _withoutLinks = replaceFiles({}, { link: refusing });
    await expect(claimDataDir(dir.path)).rejects.toThrow(
      new UsageError(
        `the file system of the data directory ${dir.path} makes no hard links (EPERM), as some network and exchange file systems: set RELAY_DATA_DIR to a directory on a local disk`,
      ),
    );
  });

  it("what the system says of anything else reaches the caller: a full disk is no file of another user", async () => {
    await using dir = await temporaryDir();
    await mkdir(join(dir.path, "format"));
    await expect(claimDataDir(dir.path)).rejects.toMatchObject({ code: "EISDIR" });
  });

  it("attaches while the owner lives, and may own after the owner released it; nobody leaves a sign of life", async () => {
    await using dir = await temporaryDir();
    const signs = async () =>
      (await readdir(join(dir.path, "run"))).filter((name) => name.endsWith(".alive"));
    const first = await claimDataDir(dir.path);
    const second = await claimDataDir(dir.path);
    expect(second).toMatchObject({ kind: "attached", ownerPid: process.pid });
    expect(await signs()).toHaveLength(1);
    if (first.kind === "owner") await first[Symbol.asyncDispose]();
    expect(await signs()).toEqual([]);
    expect((await claimDataDir(dir.path)).kind).toBe("owner");
  });

  it("tells a relay from a command that had the directory before, and the other way round", async () => {
    await using dir = await temporaryDir();
    for (const as of ["command", "relay", "command"] as const) {
      const owner = await claimDataDir(dir.path, as);
      expect(await claimDataDir(dir.path)).toMatchObject({ kind: "attached", ownerIs: as });
      if (owner.kind === "owner") await owner[Symbol.asyncDispose]();
    }
  });

  it("takes the run directory of a restored backup from others, who could connect to the database in it", async () => {
    await using dir = await temporaryDir();
    await mkdir(join(dir.path, "run"));
    await chmod(join(dir.path, "run"), 0o755);
    await claimDataDir(dir.path);
    expect((await stat(join(dir.path, "run"))).mode & 0o777).toBe(0o700);
  });

  it.each([
    ["that an earlier version made", { pidNamespace: undefined }],
    ["that was made in the same directory by another path", {}],
  ])("a claim %s is its owner's while that lives", async (_which, lacks) => {
    await using base = await temporaryDir();
    const [dir, alias] = [join(base.path, "data"), join(base.path, "alias")];
    await mkdir(join(dir, "run"), { recursive: true });
    await symlink(dir, alias);
    const held = { ...currentProcess(), ...lacks, token: "held", released: false };
    const madeIn = join(alias, "run");
    await writeFile(join(dir, "run/owner-3.json"), JSON.stringify({ ...held, madeIn }));
    expect(await claimDataDir(dir)).toMatchObject({ kind: "attached", ownerPid: process.pid });
  });

  it("survives kill -9 of the owner, and lets exactly one of many take over", async () => {
    await using dir = await temporaryDir();
    const { child, kind } = await startChild(dir.path);
    expect(kind).toBe("owner");
    expect(await claimDataDir(dir.path)).toMatchObject({ kind: "attached", ownerPid: child.pid });
    child.kill("SIGKILL");
    await once(child, "exit");
    const claims = await Promise.all(Array.from({ length: 20 }, () => claimDataDir(dir.path)));
    expect(claims.filter((claimed) => claimed.kind === "owner")).toHaveLength(1);
    const left = await readdir(join(dir.path, "run"));
    expect(left.filter((name) => name.startsWith("owner-"))).toHaveLength(1);
    expect(left.filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  it("does not take a later process with the same pid, or one of a container that is gone, for the owner", async () => {
    await using dir = await temporaryDir();
    const self = currentProcess();
    expect(isAlive(self)).toBe(true);
    expect(isAlive({ ...self, startedAt: null })).toBe(true);
    expect(isAlive({ ...self, startedAt: "earlier" })).toBe(false);
    expect(isAlive({ ...self, startedAt: null, host: "gone-container" })).toBe(false);
    expect(isAlive({ ...self, pid: 2 ** 22 + 1 })).toBe(false);
    await claim(dir.path, { ...self, startedAt: "earlier", token: "old" });
    expect((await claim(dir.path, { ...self, token: "new" })).kind).toBe("claimed");
  });

  it.skipIf(process.platform !== "linux")(
    "knows a process whatever it is called, and takes a zombie for ended: nobody may be there to reap a killed relay",
    async () => {
      const { title } = process;
      const startedAt = startTime(process.pid);
      process.title = "a) b 1 2";
      try {
        expect(startTime(process.pid)).toBe(startedAt);
      } finally {
        process.title = title;
      }
      // The shell becomes `sleep`, which reaps nothing; until then it might reap what has ended.
      const parent = spawn("sh", ["-c", "sleep 30 & echo $!; exec sleep 20"], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const pid = Number(String((await once(parent.stdout, "data"))[0]));
      const program = () => readFileSync(`/proc/${parent.pid}/comm`, "utf8");
      await until(() => program() === "sleep\n", "the shell to become `sleep`");
      process.kill(pid);
      await until(() => startTime(pid) === "ended", "a zombie");
      expect(isAlive({ ...currentProcess(), pid })).toBe(false);
      parent.kill();
      await once(parent, "exit");
    },
  );

  it("knows a process by the start time that ps tells, whatever the time zone: a command in another one took a living owner for dead", () => {
    const zone = process.env["TZ"];
    const inZone = (name: string): string | null => {
      process.env["TZ"] = name;
      return startTimeFromPs(process.pid);
    };
    try {
      expect(inZone("Asia/Tokyo")).toBe(inZone("America/New_York"));
    } finally {
      if (zone === undefined) delete process.env["TZ"];
      else process.env["TZ"] = zone;
    }
  });

  it("sees an owner in another container over the same volume, and when it is gone: its pid was not found, so both were owners", async () => {
    await using dir = await temporaryDir();
    const here = { ...currentProcess(), pid: 2 ** 22 + 1 };
    const there = { ...here, pidNamespace: "pid:[1]" };
    const first = await claim(dir.path, { ...there, token: "first" });
    expect(await claim(dir.path, { ...here, token: "second" })).toMatchObject({ kind: "held" });
    if (first.kind === "claimed") await first.release();
    expect((await claim(dir.path, { ...here, token: "third" })).kind).toBe("claimed");
    await writeFile(
      join(dir.path, "owner-9.json"),
      JSON.stringify({ ...there, token: "killed", released: false }),
    );
    expect((await claim(dir.path, { ...here, token: "fourth" })).kind).toBe("claimed");
    expect(await readdir(dir.path)).toEqual(["fourth.alive", "owner-10.json"]);
  });

  it("gives up a number that is free only since a later owner removed the claims before its own: there were two owners", async () => {
    await using dir = await temporaryDir();
    const owner = { ...currentProcess(), token: "later", released: false };
    const link = fs.link;
    let links = 0;
    /** Between the look and the claim, others have had number 1, given it back, and taken number 2. */
    const linkLate: typeof link = async (from, to) => {
      links += 1;
      if (links === 1) await writeFile(join(dir.path, "owner-2.json"), JSON.stringify(owner));
      return link(from, to);
    };
    using _late = replaceFiles({}, { link: linkLate });
    expect(await claim(dir.path, { ...currentProcess(), token: "late" })).toMatchObject({
      kind: "held",
      pid: process.pid,
    });
    expect(await readdir(dir.path)).toEqual(["owner-2.json"]);
  });

  it("takes an unreadable claim for a dead one", async () => {
    await using dir = await temporaryDir();
    await mkdir(join(dir.path, "run"));
    await writeFile(join(dir.path, "run/owner-7.json"), "{ cut");
    expect((await claimDataDir(dir.path)).kind).toBe("owner");
    expect(await readdir(join(dir.path, "run"))).toContain("owner-8.json");
  });

  it("tells a directory of a newer relay by its format, and takes one without for its own: it wrote among files that it did not know", async () => {
    await using dir = await temporaryDir();
    const format = join(dir.path, "format");
    // The last are what a power cut left, and what this relay reads, but does not write any more.
    for (const before of [null, "", "1\n"]) {
      if (before !== null) await writeFile(format, before);
      const owner = await claimDataDir(dir.path);
      if (owner.kind === "owner") await owner[Symbol.asyncDispose]();
      expect(await readFile(format, "utf8")).toBe("2\n");
    }
    await writeFile(format, "3\n");
    const refused = claimDataDir(dir.path);
    await expect(refused).rejects.toBeInstanceOf(UsageError);
    await expect(refused).rejects.toThrow(
      /^the data directory .* has the format "3", this relay knows 2: start the newer relay, restore .*$/,
    );
  });

  it("regression: a directory whose log has checksums has a format of its own: an older relay took them for records, committed offsets far beyond the end, and what came after its end was never delivered", async () => {
    await using dir = await temporaryDir();
    const format = join(dir.path, "format");
    await writeFile(format, "1\n");
    // A command does not touch the log, so the relay before this one can go on.
    const command = await claimDataDir(dir.path, "command");
    expect(await readFile(format, "utf8")).toBe("1\n");
    if (command.kind === "owner") await command[Symbol.asyncDispose]();
    await claimDataDir(dir.path);
    expect(await readFile(format, "utf8")).toBe("2\n");
    expect((await readdir(dir.path)).toSorted()).toEqual(["format", "run"]);
  });

  it("says in one line what to set when the path cannot be written", async () => {
    await using dir = await temporaryDir();
    await writeFile(join(dir.path, "file"), "");
    const refused = claimDataDir(join(dir.path, "file/data"));
    await expect(refused).rejects.toBeInstanceOf(UsageError);
    await expect(refused).rejects.toThrow(
      /^the data directory .* cannot be written \(ENOTDIR\): set RELAY_DATA_DIR .*$/,
    );
  });
});
