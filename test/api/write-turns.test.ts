import { describe, expect, it } from "vitest";
import { SimClock } from "../support/sim-clock.ts";
import { makeWriteTurns } from "../../src/api/write-turns.ts";

/** Writes that end when they are told to. */
function makeWrites() {
  const clock = new SimClock();
  const inTurn = makeWriteTurns(clock);
  const begun: string[] = [];
  const ends = new Map<string, (failure?: Error) => void>();
  const write = (orgId: string, name: string) =>
    inTurn(orgId, async () => {
      begun.push(name);
      await new Promise<void>((resolve, reject) => {
        ends.set(name, (failure) => (failure === undefined ? resolve() : reject(failure)));
      });
      return name;
    });
  return { write, begun, ends, clock };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("writes of one organization", () => {
  it("regression: take their turns, and keep no other organization waiting: 400 at once took all connections, and another's reads 20 s", async () => {
    const { write, begun, ends } = makeWrites();
    const written = Array.from({ length: 50 }, (_, index) => write("org_a", `a${index}`));
    const other = write("org_b", "b");
    await settle();
    expect(begun).toEqual(["a0", "a1", "a2", "a3", "b"]);
    ends.get("a1")?.();
    ends.get("a0")?.(new Error("refused"));
    ends.get("b")?.();
    await expect(written[0]).rejects.toThrow("refused");
    expect(await other).toBe("b");
    await settle();
    expect(begun.slice(5)).toEqual(["a4", "a5"]);
    for (let index = 2; index < 50; index += 1) {
      ends.get(`a${index}`)?.();
      await settle();
    }
    expect(await Promise.all(written.slice(1))).toHaveLength(49);
  });

  it("are refused where too many wait, or one has waited for too long", async () => {
    const { write, begun, ends, clock } = makeWrites();
    const written = Array.from({ length: 204 }, (_, index) => write("org_a", `a${index}`));
    const refusal = { code: "rate_limited", headers: { "retry-after": "1" } };
    await expect(write("org_a", "more")).rejects.toMatchObject(refusal);
    const waited = Promise.allSettled(written.slice(4));
    await clock.advance(5_001);
    const outcomes = await waited;
    expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
    expect(begun).toHaveLength(4);
    for (const name of ["a0", "a1", "a2", "a3"]) ends.get(name)?.();
    await Promise.all(written.slice(0, 4));
    void write("org_a", "later");
    await settle();
    expect(begun.at(-1)).toBe("later");
  });
});
