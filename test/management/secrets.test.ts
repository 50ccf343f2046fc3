import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SealedRow, SealedRows } from "../../src/domain/config-store.ts";
import { makeIngestTokens } from "../../src/management/ingest-token.ts";
import { reencryptAll } from "../../src/management/reencrypt.ts";
import { makeSecretBox } from "../../src/management/secret-box.ts";
import { slugOf } from "../../src/management/slug.ts";

const OLD_KEY = new Uint8Array(32).fill(1);
const NEW_KEY = new Uint8Array(32).fill(2);
const oldBox = makeSecretBox({ key: OLD_KEY, randomBytes });

describe("secret box", () => {
  it("opens what it sealed, for any value and row id", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, rowId) => {
        // JSON has no -0 and no own __proto__.
        expect(JSON.stringify(oldBox.open(oldBox.seal(value, rowId), rowId))).toBe(
          JSON.stringify(value),
        );
      }),
    );
  });

  it("never seals the same value to the same bytes, nor leaves it readable", () => {
    const sealed = oldBox.seal({ secret: "canary-canary" }, "ep_1");
    expect(Buffer.from(sealed).includes("canary")).toBe(false);
    expect(
      Buffer.from(sealed).equals(Buffer.from(oldBox.seal({ secret: "canary-canary" }, "ep_1"))),
    ).toBe(false);
  });

  it("refuses a value that was moved to another row, and one with any bit changed", () => {
    const sealed = Buffer.from(oldBox.seal({ secret: "s" }, "ep_1"));
    expect(() => oldBox.open(sealed, "ep_2")).toThrow(expect.objectContaining({ code: "damaged" }));
    for (let at = 0; at < sealed.length; at += 1) {
      const changed = Buffer.from(sealed);
      changed[at] = changed[at]! ^ 1;
      expect(() => oldBox.open(changed, "ep_1"), `byte ${at}`).toThrow();
    }
    for (const length of [0, 1, 20, 36, sealed.length - 1])
      expect(() => oldBox.open(sealed.subarray(0, length), "ep_1"), `${length} bytes`).toThrow(
        expect.objectContaining({ code: "damaged" }),
      );
  });

  it("says that it does not know the key, and refuses keys of another size", () => {
    const newBox = makeSecretBox({ key: NEW_KEY, randomBytes });
    expect(() => newBox.open(oldBox.seal("s", "ep_1"), "ep_1")).toThrow(
      expect.objectContaining({
        code: "unknown_key",
        message: expect.stringContaining("RELAY_ENCRYPTION_KEY"),
      }),
    );
    for (const size of [0, 16, 31, 33, 64]) {
      const other = new Uint8Array(size);
      expect(() => makeSecretBox({ key: other, randomBytes })).toThrow("32 bytes");
      expect(() => makeSecretBox({ key: NEW_KEY, retiredKeys: [other], randomBytes })).toThrow(
        "32 bytes",
      );
    }
  });

  it("seals everything anew under a new key, once, and leaves alone what changed meanwhile", async () => {
    const tables = {
      endpoints: new Map<string, Uint8Array>(),
      destinations: new Map<string, Uint8Array>(),
    };
    for (let index = 0; index < 450; index += 1) {
      const id = `ep_${String(index).padStart(4, "0")}`;
      tables.endpoints.set(id, oldBox.seal({ secret: id }, id));
    }
    tables.destinations.set("dst_1", oldBox.seal(["x"], "dst_1"));
    const box = makeSecretBox({ key: NEW_KEY, retiredKeys: [OLD_KEY], randomBytes });
    const meanwhile = box.seal({ secret: "meanwhile" }, "ep_0007");
    const rows: SealedRows = {
      async readAfter(table, afterId, limit) {
        return [...tables[table]]
          .filter(([id]) => id > afterId)
          .slice(0, limit)
          .map(([id, sealed]): SealedRow => ({ id, sealed }));
      },
      async replace(table, row, sealed) {
        if (row.id === "ep_0007") tables.endpoints.set(row.id, meanwhile);
        if (tables[table].get(row.id) !== row.sealed) return false;
        tables[table].set(row.id, sealed);
        return true;
      },
    };
    expect(await reencryptAll(rows, box)).toEqual({ rewritten: 450, alreadyCurrent: 0 });
    expect(await reencryptAll(rows, box)).toEqual({ rewritten: 0, alreadyCurrent: 451 });
    const newBox = makeSecretBox({ key: NEW_KEY, randomBytes });
    expect(newBox.open(tables.endpoints.get("ep_0042")!, "ep_0042")).toEqual({ secret: "ep_0042" });
    expect(newBox.open(tables.endpoints.get("ep_0007")!, "ep_0007")).toEqual({
      secret: "meanwhile",
    });
    expect(newBox.open(tables.destinations.get("dst_1")!, "dst_1")).toEqual(["x"]);
  });
});

describe("ingest tokens", () => {
  const tokens = makeIngestTokens(OLD_KEY, randomBytes);

  it("pass their own check, and no other installation's", () => {
    for (let round = 0; round < 100; round += 1) {
      const token = tokens.mint();
      expect(token).toMatch(/^[\w-]{32}$/);
      expect(tokens.isOurs(token)).toBe(true);
      expect(makeIngestTokens(NEW_KEY, randomBytes).isOurs(token)).toBe(false);
    }
  });

  it("turn down whatever was not minted here", () => {
    const token = tokens.mint();
    for (let at = 0; at < token.length; at += 1) {
      const other = token[at] === "A" ? "B" : "A";
      expect(tokens.isOurs(token.slice(0, at) + other + token.slice(at + 1))).toBe(false);
    }
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 64 }), (text) => !tokens.isOurs(text)),
    );
  });
});

describe("slugs", () => {
  it("hold nothing but letters, digits and single inner hyphens", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1 }), (name) => {
        expect(slugOf(name, Math.random)).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
      }),
    );
  });

  it("are no longer than a PATCH takes, whatever lower case makes of a name", () => {
    expect(slugOf("\u0130".repeat(255), Math.random)).toMatch(/^(i-){127}i$/);
  });
});
