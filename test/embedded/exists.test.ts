import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { exists } from "../../src/embedded/exists.ts";

it("what is there, or may be there, is not taken for missing: a store would be made anew", async () => {
  const dir = await mkdtemp(join(tmpdir(), "relay-exists-"));
  const file = join(dir, "file");
  await writeFile(file, "");
  expect(await exists(file)).toBe(true);
  expect(await exists(join(dir, "nothing"))).toBe(false);
  await expect(exists(join(file, "below"))).rejects.toMatchObject({ code: "ENOTDIR" });
  await rm(dir, { recursive: true });
});
