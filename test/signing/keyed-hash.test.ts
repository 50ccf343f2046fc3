import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { KeyedHash, makeScratch } from "../../src/signing/keyed-hash.ts";
import { parseTemplate } from "../../src/signing/signed-payload.ts";
import { collectGarbage } from "../support/collect-garbage.ts";
import { until } from "../support/wait-for.ts";

const scratch = makeScratch();
const template = parseTemplate("{id}.{timestamp}é{body}|{method} {path}")!;
const algorithm = fc.constantFrom("sha256" as const, "sha1" as const);

it("makes the HMAC that Node makes, for keys and payloads of any length, one after the other", () => {
  const sizes = fc.oneof(
    { weight: 9, arbitrary: fc.nat(300) },
    fc.integer({ min: 16_000, max: 20_000 }),
  );
  fc.assert(
    fc.property(
      algorithm,
      fc.uint8Array({ maxLength: 200 }),
      sizes,
      fc.string({ unit: "binary", maxLength: 40 }),
      fc.nat(255),
      (name, key, bodyBytes, text, fill) => {
        const body = Buffer.alloc(bodyBytes, fill);
        const values = { body, timestamp: "1700000000", id: text, method: "POST", path: "/in/ü" };
        const payload = [Buffer.from(`${text}.1700000000é`), body, Buffer.from("|POST /in/ü")];
        const expected = createHmac(name, key).update(Buffer.concat(payload)).digest("hex");
        const made = new KeyedHash(name, key).digest(template, values, scratch);
        expect(made.toString("hex")).toBe(expected);
      },
    ),
    { numRuns: 500 },
  );
});

it("gives the same digest when one key is used again after another", () => {
  const values = { body: Buffer.from("{}"), timestamp: "1", id: "a", method: "POST", path: "/" };
  const [one, other] = [
    new KeyedHash("sha256", Buffer.from("k")),
    new KeyedHash("sha1", Buffer.from("l")),
  ];
  const first = one.digest(template, values, scratch).toString("hex");
  other.digest(template, values, scratch);
  expect(one.digest(template, values, scratch).toString("hex")).toBe(first);
});

it("regression: keeps nothing of the memory that the bytes of its key were decoded into", async () => {
  // Node decodes short texts into slabs that they share with whatever else is decoded meanwhile.
  const { made, slab } = makeFromSlab();
  await until(() => {
    collectGarbage();
    return slab.deref() === undefined;
  }, "the slab to be let go of");
  expect(made).toBeInstanceOf(KeyedHash);
});

function makeFromSlab(): { readonly made: KeyedHash; readonly slab: WeakRef<ArrayBuffer> } {
  const slab = new ArrayBuffer(Buffer.poolSize);
  return { made: new KeyedHash("sha256", new Uint8Array(slab, 8, 32)), slab: new WeakRef(slab) };
}
