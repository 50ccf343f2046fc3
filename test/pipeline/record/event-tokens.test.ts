import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { escapeKey, payloadToken, tokenOfField } from "../../../src/domain/searchable-leaf.ts";
import type { EventRecord } from "../../../src/domain/event.ts";
import { TokenList } from "../../../src/domain/token-list.ts";
import { makeTokenizer, MAX_LEAVES } from "../../../src/pipeline/record/event-tokens.ts";
import { JsonLeaves } from "../../../src/pipeline/record/json-leaves.ts";
import { LeafPath } from "../../../src/pipeline/record/leaf-path.ts";
import { makeEvent } from "../../support/clickhouse-events.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";
import { countTurns } from "../../support/count-turns.ts";
import { cpuSecondsOf } from "../../support/cpu-seconds.ts";

const tokenize = makeTokenizer();
const eventTokens = async (event: EventRecord): Promise<string[]> => {
  const list = new TokenList();
  await tokenize(event, list);
  return list.toTexts();
};
const tokensOf = (body: string | Uint8Array, contentType: string | null = "application/json") =>
  eventTokens(makeEvent(1, { body: Buffer.from(body), contentType, headers: [] }));
const finds = async (
  body: string,
  path: string,
  value: string,
  contentType?: string,
): Promise<boolean> => (await tokensOf(body, contentType)).includes(tokenOfField(path, value));

describe("leaves", () => {
  test.each([
    ['{"data":{"object":{"id":"x"}}}', "data.object.id", "x"],
    ['{"items":[{"sku":"a"},{"sku":"b"}]}', "items.1.sku", "b"],
    ['[["x"],"y"]', "0.0", "x"],
    ['{"n":1.0}', "n", "1.0"],
    ['{"n":12345678901234567890}', "n", "12345678901234567890"],
    ['{"n":-0.50e+3}', "n", "-0.50e+3"],
    ['{"a":true,"b":null}', "a", "true"],
    ['{"a":true,"b":null}', "b", "null"],
    ['{"a.b":"x"}', "a\\.b", "x"],
    ['{"a\\\\b":"x"}', "a\\\\b", "x"],
    ['{"a\\\\b":"x"}', "a\\b", "x"],
    ['{"a\\u0000b":"x"}', "a\0b", "x"],
    ['{"ключ":"\\u00e9\\n\\"" }', "ключ", 'é\n"'],
    ['{"headers":{"x":1}}', "payload.headers.x", "1"],
    ['{"payload":{"headers":{"x":1}}}', "payload.payload.headers.x", "1"],
    ['{"payload":{"x":1}}', "payload.x", "1"],
    ['{"headers":5}', "headers", "5"],
    ['{"a":{"":1}}', "a.", "1"],
    ['\uFEFF{"a":1}', "a", "1"],
    [' {"a":1,"a":2}\n', "a", "2"],
  ])("of %s hold %s = %s", async (body, path, value) => {
    expect(await finds(body, path, value)).toBe(true);
  });

  test.each([
    ['{"a.b":"x"}', "a.b", "x"],
    ['{"a":{"b":"x"}}', "a\\.b", "x"],
    ['{"n":1.0}', "n", "1"],
    ['{"n":"1"}', "n", "1 "],
    ['{"headers":{"x":1}}', "headers.x", "1"],
    ['{"a":1', "a", "1"],
    ['{"a":1} x', "a", "1"],
    ['{"a":01}', "a", "01"],
    ["{'a':1}", "a", "1"],
    ['{"a":"x\ny"}', "a", "x\ny"],
    ['{"a":"C:\\qux"}', "a", "C:\\qux"],
    ['{"a":1,"b":"\\u00g0"}', "a", "1"],
    ['{"a":1,"\\x":2}', "a", "1"],
    ['"a"', "", "a"],
    ['{"a":{}}', "a", "{}"],
  ])("of %s do not hold %s = %s", async (body, path, value) => {
    expect(await finds(body, path, value)).toBe(false);
  });

  test("JSON that is called a form is searched as JSON: curl -d says so", async () => {
    const form = "application/x-www-form-urlencoded";
    expect(await finds('{"a":{"b":"x"}}', "a.b", "x", form)).toBe(true);
    expect(await finds('[{"a":1}]', "0.a", "1", form)).toBe(true);
    expect(await finds("{a=1", "{a", "1", form)).toBe(true);
  });

  test("form fields are top-level paths", async () => {
    const form = "application/x-www-form-urlencoded; charset=utf-8";
    expect(await finds("From=%2B1&a.b=x+y", "From", "+1", form)).toBe(true);
    expect(await finds("From=%2B1&a.b=x+y", "a\\.b", "x y", form)).toBe(true);
    expect(await finds("?a=1", "?a", "1", form)).toBe(true);
  });

  test("bodies that are neither JSON nor UTF-8 have none", async () => {
    expect(await tokensOf("plain text", "text/plain")).toEqual([]);
    expect(await tokensOf(Buffer.from([0x7b, 0xff, 0x7d]))).toEqual([]);
    expect(await tokensOf("")).toEqual([]);
  });

  test("header names are found in lower case, values as sent, however long their name's spelling", async () => {
    const event = makeEvent(1, { headers: [["X-GitHub-Event", "Push"]], body: Buffer.alloc(0) });
    expect(await eventTokens(event)).toEqual([tokenOfField("headers.x-github-EVENT", "Push")]);
    const long = makeEvent(1, { headers: [["a", "x".repeat(513)]], body: Buffer.alloc(0) });
    expect(await eventTokens(long)).toEqual([]);
  });

  test("the first 2,000 count, and what cannot be asked for is left out", async () => {
    const many = JSON.stringify(Array.from({ length: 3_000 }, (_, index) => index));
    expect(await tokensOf(many)).toHaveLength(MAX_LEAVES);
    expect(
      await tokensOf(JSON.stringify({ long: "x".repeat(513), short: "x".repeat(512) })),
    ).toHaveLength(1);
    expect(await tokensOf(JSON.stringify({ ["k".repeat(257)]: 1 }))).toEqual([]);
    const pairs = Array.from({ length: 3_000 }, (_, index) => `f${index}=1`).join("&");
    expect(await tokensOf(pairs, "application/x-www-form-urlencoded")).toHaveLength(MAX_LEAVES);
  });

  test("regression: of a key of ten million dots, or such a form, nobody makes a path: it held the process for seven seconds", async () => {
    const dots = ".".repeat(10_000_000);
    const form = "application/x-www-form-urlencoded";
    const seconds = await cpuSecondsOf(async () => {
      expect(await tokensOf(`{"${dots}":1,"b":{"${dots}":{"c":2}},"a":3}`)).toEqual(
        await tokensOf('{"a":3}'),
      );
      expect(await tokensOf(`{"${"\\\\".repeat(4_000_000)}":1,"a":3}`)).toEqual(
        await tokensOf('{"a":3}'),
      );
      expect(await tokensOf(`${dots}=1&a=3&b=${"+".repeat(10_000_000)}`, form)).toEqual(
        await tokensOf("a=3", form),
      );
    });
    expect(seconds).toBeLessThan(3);
  });

  test.each([
    ["forms of 5,200 blanks", `${"+".repeat(5_200)}&`, "application/x-www-form-urlencoded"],
    ["dotted keys of nothing", '".":[],', null],
    ["escaped keys of nothing", '"\\n":[],', null],
    ["keys within keys", '"\\n":{', null],
  ])(
    "regression: of thirty megabytes of %s nobody makes texts: they held the process for four seconds and more",
    async (_what, part, type) => {
      const body = part.repeat(30_000_000 / part.length);
      const seconds = await cpuSecondsOf(() =>
        tokensOf(type === null ? `{${body}` : body, type ?? "application/json"),
      );
      expect(seconds).toBeLessThan(3);
    },
  );

  test("a key and a value are found however long they are written", async () => {
    const [key, value] = ["😀".repeat(256), "😀".repeat(512)];
    const escaped = (text: string): string => text.replaceAll("😀", "\\ud83d\\ude00");
    expect(await finds(`{"${escaped(key)}":"${escaped(value)}"}`, key, value)).toBe(true);
    const form = "application/x-www-form-urlencoded";
    const pair = `${encodeURIComponent(key)}=${encodeURIComponent(value)}`;
    expect(await finds(pair, key, value, form)).toBe(true);
  });

  test("lengths count characters as the API does: long values and paths beyond the BMP were found by nothing", async () => {
    const emoji = (count: number): string => "😀".repeat(count);
    expect(await finds(JSON.stringify({ a: emoji(512) }), "a", emoji(512))).toBe(true);
    expect(await finds(JSON.stringify({ a: `${emoji(511)}x` }), "a", `${emoji(511)}x`)).toBe(true);
    expect(await tokensOf(JSON.stringify({ a: emoji(513) }))).toEqual([]);
    expect(await tokensOf(JSON.stringify({ a: `${emoji(512)}x` }))).toEqual([]);
    expect(await finds(JSON.stringify({ [emoji(256)]: 1 }), emoji(256), "1")).toBe(true);
    expect(await tokensOf(JSON.stringify({ [emoji(257)]: 1 }))).toEqual([]);
    const nested = `${emoji(127)}.${emoji(128)}`;
    expect(await finds(JSON.stringify({ [emoji(127)]: { [emoji(128)]: 1 } }), nested, "1")).toBe(
      true,
    );
    expect(await tokensOf(JSON.stringify({ [emoji(128)]: { [emoji(128)]: 1 } }))).toEqual([]);
    const form = new URLSearchParams({ a: emoji(300) }).toString();
    expect(await finds(form, "a", emoji(300), "application/x-www-form-urlencoded")).toBe(true);
    const body = Buffer.alloc(0);
    for (const [value, count] of [
      [emoji(512), 1],
      [emoji(513), 0],
    ] as const)
      expect(await eventTokens(makeEvent(1, { headers: [["a", value]], body }))).toHaveLength(
        count,
      );
  });

  test("no depth is too deep", async () => {
    const depth = 200_000;
    expect(await tokensOf(`${"[".repeat(depth)}1${"]".repeat(depth)}`)).toEqual([]);
    expect(await tokensOf(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`)).toEqual([]);
    // Closing brackets are matched to their opening ones at any depth.
    const mixed = `${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`;
    expect(await tokensOf(`{"deep":${mixed},"b":1}`)).toEqual([payloadToken("b", "1")]);
  });

  test("ten million containers, one in the other, take no memory to speak of: they ended the recorder, again and again", async () => {
    for (const opening of ["[", '{"":']) {
      const bytes = Buffer.from(opening.repeat(Math.floor(10_000_000 / opening.length)));
      const path = new LeafPath();
      collectGarbage();
      const before = process.memoryUsage();
      new JsonLeaves(bytes, MAX_LEAVES, new TokenList(), path).walk(Infinity);
      const after = process.memoryUsage();
      const grownBytes =
        after.heapUsed - before.heapUsed + (after.arrayBuffers - before.arrayBuffers);
      expect(grownBytes).toBeLessThan(100_000_000);
    }
  });

  test("regression: a large payload is walked in turns of the event loop: megabytes of containers without a leaf held the process for half a second", async () => {
    const empties = "[],".repeat(700_000);
    for (const [body, expected] of [
      [`{"a":[${empties}[]],"b":1}`, [payloadToken("b", "1")]],
      [`{"b":1,"a":[${empties}[]]`, []],
    ] as const) {
      using turns = countTurns();
      expect(await tokensOf(body)).toEqual(expected);
      expect(turns.count).toBeGreaterThan(20);
    }
  });

  test("leaves that cannot be asked for count: a payload of millions of them was walked to its end", async () => {
    const text = `{"${"k".repeat(257)}":[${"1,".repeat(MAX_LEAVES - 1)}1],"a":1}`;
    expect(await tokensOf(text)).toEqual([]);
    expect(await tokensOf(text.replace("1,", ""))).toHaveLength(1);
    const pairs = `&&?${"k".repeat(257)}=1&${"=1&&".repeat(MAX_LEAVES - 2)}`;
    const form = "application/x-www-form-urlencoded";
    expect(await tokensOf(`${pairs}a=1&b=1`, form)).toEqual([payloadToken("a", "1")]);
  });

  test("leaves are those that JSON.parse finds, in their order, whatever keys, values and white space are", async () => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string({
        unit: fc.constantFrom(".", "\\", '"', "\0", "\n", "a", "é", "😀", "\ud800", "/"),
      }),
      fc.string({ minLength: 250, maxLength: 260, unit: fc.constantFrom("k", "é", "😀") }),
      fc.string({ minLength: 510, maxLength: 514, unit: fc.constantFrom("v", ".", "😀") }),
    );
    const scalar = fc.oneof(
      text,
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "medium" },
        scalar,
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(text, tie("value"), { maxKeys: 4 }),
      ),
    }));
    const container = fc.oneof(
      fc.array(value, { maxLength: 5 }),
      fc.dictionary(text, value, { maxKeys: 5 }),
    );
    await fc.assert(
      fc.asyncProperty(
        container,
        fc.constantFrom("", "\t", " "),
        fc.boolean(),
        async (json, indent, isMarked) => {
          const body = JSON.stringify(json, null, indent);
          const expected = expectedLeaves(JSON.parse(body) as unknown, []);
          expect(await tokensOf(isMarked ? `\uFEFF${body}` : body)).toEqual(expected);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("the walk accepts what JSON.parse accepts, and nothing that it refuses", () => {
    const path = new LeafPath();
    // In an array, since a scalar alone has no leaf.
    const accepts = (text: string): boolean =>
      new JsonLeaves(Buffer.from(`[${text}]`), Infinity, new TokenList(), path).walk(Infinity) ===
      true;
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        expect(accepts(text)).toBe(true);
      }),
    );
    const structure = fc
      .array(fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', "1", "true", " ", "-"))
      .map((parts) => parts.join(""));
    const string = fc
      .array(fc.constantFrom("\\", '"', "u", "0041", "d8", "n", "x", "/", "\t", "\u2028", "é"))
      .map((parts) => `["${parts.join("")}"]`);
    fc.assert(
      fc.property(fc.oneof(structure, string), (text) => {
        let valid = true;
        try {
          JSON.parse(`[${text}]`);
        } catch {
          valid = false;
        }
        expect(accepts(text)).toBe(valid);
      }),
      { numRuns: 2_000 },
    );
  });
});

/** Returns the leaves in the simplest way: path by path, from what `JSON.parse` has read. */
function expectedLeaves(value: unknown, keys: readonly string[]): string[] {
  if (typeof value === "object" && value !== null)
    return Object.entries(value).flatMap(([key, inner]) => expectedLeaves(inner, [...keys, key]));
  const path = keys.map(escapeKey).join(".");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (path === "" || Array.from(path).length > 256 || Array.from(text).length > 512) return [];
  return [Buffer.from(payloadToken(path, text)).toString()];
}
