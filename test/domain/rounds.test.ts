import { describe, expect, it } from "vitest";
import { nextTurn } from "../../src/domain/next-turn.ts";
import { Rounds } from "../../src/domain/rounds.ts";

/** Makes rounds whose answers are given by hand, oldest first, as the questions in capitals. */
function makeRounds() {
  const asked: string[] = [];
  const underWay: { readonly answer: () => void; readonly fail: (reason: Error) => void }[] = [];
  const rounds = new Rounds<string, string>((subject, questions) => {
    asked.push(`${subject}: ${questions.join(" ")}`);
    return new Promise((resolve, reject) => {
      const answer = () => resolve(questions.map((question) => question.toUpperCase()));
      underWay.push({ answer, fail: reject });
    });
  });
  return { rounds, asked, next: () => underWay.shift()! };
}

/** Lets all of this turn of the event loop pass, and the next. */
const turns = async () => {
  await nextTurn();
  await nextTurn();
};

describe("rounds", () => {
  it("answer together what is asked in one turn, and then all that came meanwhile", async () => {
    const { rounds, asked, next } = makeRounds();
    const first = [rounds.ask("s", "a"), rounds.ask("s", "b")];
    await turns();
    const second = [rounds.ask("s", "c"), rounds.ask("s", "d"), rounds.ask("s", "e")];
    await turns();
    expect(asked).toEqual(["s: a b"]);
    next().answer();
    expect(await Promise.all(first)).toEqual(["A", "B"]);
    await turns();
    expect(asked).toEqual(["s: a b", "s: c d e"]);
    next().answer();
    expect(await Promise.all(second)).toEqual(["C", "D", "E"]);
    const third = rounds.ask("s", "f");
    await turns();
    next().answer();
    expect(await third).toBe("F");
    expect(asked.at(-1)).toBe("s: f");
  });

  it("fail all that one round asked, and nothing of the next", async () => {
    const { rounds, next } = makeRounds();
    const first = Promise.allSettled([rounds.ask("s", "a"), rounds.ask("s", "b")]);
    await turns();
    const second = rounds.ask("s", "c");
    const reason = new Error("down");
    next().fail(reason);
    expect(await first).toEqual([
      { status: "rejected", reason },
      { status: "rejected", reason },
    ]);
    await turns();
    next().answer();
    expect(await second).toBe("C");
  });

  it("do not let one subject wait for another", async () => {
    const { rounds, asked, next } = makeRounds();
    void rounds.ask("slow", "a");
    await turns();
    const other = rounds.ask("fast", "b");
    await turns();
    expect(asked).toEqual(["slow: a", "fast: b"]);
    const [slow, fast] = [next(), next()];
    fast.answer();
    expect(await other).toBe("B");
    slow.answer();
  });
});
