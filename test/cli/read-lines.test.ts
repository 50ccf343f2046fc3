import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readLines } from "../../src/cli/read-lines.ts";

async function linesOf(chunks: readonly string[], maxBytes = 100): Promise<(string | null)[]> {
  async function* input(): AsyncGenerator<Uint8Array> {
    for (const chunk of chunks) yield Buffer.from(chunk);
  }
  const lines: (string | null)[] = [];
  for await (const line of readLines(input(), maxBytes)) lines.push(line?.toString() ?? null);
  return lines;
}

describe("the lines of a stream", () => {
  it.each([
    [[], []],
    [["a"], ["a"]],
    [["a\n"], ["a"]],
    [["\n\n"], ["", ""]],
    [["a\r\nb"], ["a\r", "b"]],
    [
      ["a", "b\nc", "", "d", "\n"],
      ["ab", "cd"],
    ],
  ])("%j are %j", async (chunks, lines) => {
    expect(await linesOf(chunks)).toEqual(lines);
  });

  it("are the same however the stream is cut", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.stringMatching(/^[ab\n]{0,6}$/)), async (chunks) => {
        const all = chunks.join("");
        const expected = all.split("\n");
        // What follows the last line feed is a line only if there is something.
        if (expected.at(-1) === "") expected.pop();
        expect(await linesOf(chunks)).toEqual(expected);
      }),
    ));

  it("regression: one that is too long is null, and the next one whole: it ended the program with a stack", async () => {
    expect(await linesOf(["abc\nabcd\n", "ab", "cdef", "gh\nabc\n", "abcd"], 3)).toEqual([
      "abc",
      null,
      null,
      "abc",
      null,
    ]);
  });
});
