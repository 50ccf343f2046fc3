import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { shellWord } from "../../src/domain/shell-word.ts";

const TEXTS = [
  "acme",
  "Acme Inc.",
  "it's",
  "",
  '$HOME `id` \\ "x"',
  "a;b&c|d",
  "-n",
  "~",
  "日本 語",
];

it.each(TEXTS)("a shell reads %j as one word, and as it is", (text) => {
  const read = execFileSync("sh", ["-c", `set -- ${shellWord(text)}; printf '%s\\n%s' $# "$1"`]);
  expect(read.toString()).toBe(`1\n${text}`);
});

it("leaves a plain name without quotes", () => {
  expect(shellWord("acme")).toBe("acme");
});
