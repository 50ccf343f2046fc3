import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { claimDataDir } from "../../src/embedded/data-dir.ts";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "relay-content-"));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

async function put(...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await mkdir(dirname(join(dataDir, name)), { recursive: true });
    await writeFile(join(dataDir, name), "");
  }
}

async function isTaken(): Promise<boolean> {
  const claim = await claimDataDir(dataDir);
  if (claim.kind === "owner") await claim[Symbol.asyncDispose]();
  return claim.kind === "owner";
}

it.each([
  { what: "a project's", names: [".git/HEAD", "package.json", "src/main.ts", "log/app.log"] },
  { what: "that of another database", names: ["PG_VERSION", "base/1"] },
  { what: "one with a name of several lines", names: ["log\nbook/x", "a\nb/x"] },
])(
  "regression: a directory that is another program's ($what) is refused in one line and left as it is: it was filled with our files",
  async ({ names }) => {
    await put(...names);
    const before = (await readdir(dataDir, { recursive: true })).toSorted();
    await expect(claimDataDir(dataDir)).rejects.toMatchObject({
      name: "UsageError",
      message: expect.stringMatching(
        /^the data directory \S+ was not made by a relay and has other directories in it \(".+"\): set RELAY_DATA_DIR to a directory that is empty or is yet to be made$/,
      ),
    });
    expect((await readdir(dataDir, { recursive: true })).toSorted()).toEqual(before);
  },
);

it.each([
  { what: "an empty one", names: [] },
  { what: "one in which its output is kept", names: ["relay.log", "relay.pid", "variables.env"] },
  { what: "a fresh volume", names: ["lost+found/x", ".snapshot/x", "..data/x", ".DS_Store"] },
  {
    what: "one in which the operator has put keys",
    names: ["encryption.key", "first-api-key", "first-api-key.old"],
  },
  { what: "stores out of a backup", names: ["postgres/data/PG_VERSION", "clickhouse/x", "log/x"] },
  { what: "a relay's with notes of the operator", names: ["format", "notes.txt", "backup.tar"] },
  { what: "one of an older relay, with notes", names: ["run/owner-7.json", "notes.txt"] },
])("takes $what", async ({ names }) => {
  await put(...names);
  expect(await isTaken()).toBe(true);
});
