import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { refuseOtherKey, type KeyMark } from "../../src/app/key-mark.ts";
import type { SealedRows } from "../../src/domain/config-store.ts";
import { makeSecretBox, type SecretBox } from "../../src/management/secret-box.ts";

const ALONE = { madeFile: null, isAttached: false };

describe("the key of all secrets", () => {
  const [first, other] = [makeBox(), makeBox()];
  let directory: string;
  let madeFile: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "key-mark-"));
    madeFile = join(directory, "encryption.key");
    await writeFile(madeFile, "made");
  });

  afterEach(() => rm(directory, { recursive: true }));

  it("regression: an older key that is restored while nothing is stored is not refused for stored secrets", async () => {
    const mark = makeMark();
    await refuseOtherKey(rowsOf([]), mark, first, ALONE);
    await refuseOtherKey(rowsOf([]), mark, other, { madeFile, isAttached: false });
    const restored = refuseOtherKey(rowsOf([]), mark, first, ALONE);
    await expect(restored).rejects.toThrow(
      /^no secret is stored yet, .* started with another key before: .*relay secrets reencrypt/,
    );
    await refuseOtherKey(rowsOf([]), mark, other, ALONE);
  });

  it("regression: a key made beside a running relay is refused and removed: each encrypted what the other could not read", async () => {
    const mark = makeMark();
    await refuseOtherKey(rowsOf([]), mark, first, ALONE);
    const beside = refuseOtherKey(rowsOf([]), mark, other, { madeFile, isAttached: true });
    await expect(beside).rejects.toThrow(/is missing, and the running relay has the key/);
    expect(existsSync(madeFile)).toBe(false);
    await refuseOtherKey(rowsOf([]), mark, first, ALONE);
  });

  it.each(["endpoints", "destinations"] as const)(
    "that was made since its file was gone is refused and removed where %s have secrets: a new relay could read none of them",
    async (table) => {
      const mark = makeMark();
      await refuseOtherKey(rowsOf([]), mark, first, ALONE);
      const rows = rowsOf([first.seal("whsec", "row_1")], table);
      const started = refuseOtherKey(rows, mark, other, { madeFile, isAttached: false });
      await expect(started).rejects.toThrow(
        /is missing, and the stored secrets are encrypted \(row_1\): restore it/,
      );
      expect(existsSync(madeFile)).toBe(false);
      await refuseOtherKey(rows, mark, first, ALONE);
    },
  );

  it("is the one that a process made for both when it starts at the same time as its relay", async () => {
    const mark = makeMark();
    await refuseOtherKey(rowsOf([]), mark, first, { madeFile, isAttached: true });
    await refuseOtherKey(rowsOf([]), mark, first, ALONE);
    expect(existsSync(madeFile)).toBe(true);
  });

  it("is another than the mark's after a change that was interrupted, though the first secrets open", async () => {
    const mark = makeMark();
    await refuseOtherKey(rowsOf([]), mark, first, ALONE);
    const rows = rowsOf([other.seal("whsec", "row_1"), first.seal("whsec", "row_2")]);
    await expect(refuseOtherKey(rows, mark, other, ALONE)).rejects.toThrow(
      /^the stored secrets are encrypted under another key \(not all of them\): .*relay secrets reencrypt/,
    );
    await expect(refuseOtherKey(rows, mark, first, ALONE)).rejects.toThrow(/another key \(row_1\)/);
  });
});

function makeBox(): SecretBox {
  return makeSecretBox({ key: randomBytes(32), randomBytes });
}

function makeMark(): KeyMark {
  let stored: Uint8Array | null = null;
  return {
    ensure: async (make) => (stored ??= make()),
    put: async (mark) => void (stored = mark),
  };
}

function rowsOf(sealed: readonly Uint8Array[], of = "endpoints"): SealedRows {
  const rows = sealed.map((one, index) => ({ id: `row_${index + 1}`, sealed: one }));
  return {
    readAfter: async (table, afterId, limit) =>
      table === of ? rows.filter(({ id }) => id > afterId).slice(0, limit) : [],
    replace: async () => false,
  };
}
