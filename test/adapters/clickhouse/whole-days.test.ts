import { expect, test } from "vitest";
import { WholeDays, type WholePart } from "../../../src/adapters/clickhouse/whole-days.ts";

const day = (part: string): WholePart => ({ table: "events", part });

/** Each listing answers with the next of these, the last one for ever. */
function listings(...answers: (readonly WholePart[])[]): WholeDays {
  return new WholeDays(async () => (answers.length > 1 ? answers.shift()! : answers[0]!));
}

async function partsAsked(days: WholeDays): Promise<(readonly string[] | undefined)[]> {
  const asked: (readonly string[] | undefined)[] = [];
  await days.ask(async (whole) => asked.push(whole.get("events")));
  return asked;
}

test("asks once while the parts stay, also the next time", async () => {
  const days = listings([day("a"), day("b")]);
  expect(await partsAsked(days)).toEqual([["a", "b"]]);
  expect(await partsAsked(days)).toEqual([["a", "b"]]);
});

test("asks again when a part was merged away, came or went meanwhile", async () => {
  const days = listings([day("a"), day("b")], [day("a"), day("c")]);
  expect(await partsAsked(days)).toEqual([
    ["a", "b"],
    ["a", "c"],
  ]);
  expect(await partsAsked(days)).toEqual([["a", "c"]]);
  expect(await partsAsked(listings([day("a"), day("b")], [day("a")]))).toHaveLength(2);
});

test("takes no part for whole when they do not come to rest", async () => {
  const days = listings([day("a")], [day("b")], [day("c")], [day("d")], [day("e")]);
  expect(await partsAsked(days)).toEqual([["a"], ["b"], ["c"], undefined]);
});
