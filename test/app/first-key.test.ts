import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ensureFirstKey } from "../../src/app/first-key.ts";
import { openConfigStore } from "../../src/app/open-config-store.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { openApiKeys } from "../../src/app/open-api-keys.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

it("two that make sure of the first key at once both have one that works, and its file is whole: the second failed, and its start with it", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-first-key-"));
  try {
    const config = loadConfig({ RELAY_DATA_DIR: dataDir });
    await using store = await openConfigStore({
      databaseUrl: null,
      dataDir,
      embeddedMode: "serve",
      templateFile: null,
      clock: makeSystemClock(),
      logger: makeSilentLogger(),
    });
    await store.migrate();
    for (let round = 0; round < 5; round += 1) {
      await rm(join(dataDir, "first-api-key"), { force: true });
      const made = await Promise.all([
        ensureFirstKey(config, store),
        ensureFirstKey(config, store),
      ]);
      const keys = made.map((key) => (key.kind === "usable" ? key.key : key.kind));
      const kept = await readFile(join(dataDir, "first-api-key"), "utf8");
      expect(keys).toContain(kept.trim());
    }
    const file = join(dataDir, "first-api-key");
    expect((await stat(file)).mode & 0o777).toBe(0o600);

    // As after a database was restored from before that key.
    await writeFile(file, "rk_unknown0_0123456789abcdefghijklmnop\n");
    const replaced = await ensureFirstKey(config, store);
    expect(replaced).toEqual({ kind: "usable", key: (await readFile(file, "utf8")).trim() });
    expect(replaced).not.toMatchObject({ key: expect.stringContaining("unknown0") });
    expect(await ensureFirstKey(config, store)).toEqual(replaced);

    const left = await readdir(dataDir);
    expect(left.filter((name) => name.startsWith("first-api-key"))).toEqual(["first-api-key"]);

    // Regression: each start made one more key, with all rights, whose file could not be written either.
    await rm(join(dataDir, "first-api-key"));
    await mkdir(join(dataDir, "first-api-key"));
    const keys = openApiKeys(store);
    const before = await keys.list(config.bootstrap.org);
    await expect(ensureFirstKey(config, store)).rejects.toThrow(
      /first-api-key cannot be read \(EISDIR\): let this user read it/,
    );
    expect(await keys.list(config.bootstrap.org)).toHaveLength(before.length);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}, 60_000);
