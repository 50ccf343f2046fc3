import { expect, it } from "vitest";
import { makeLargeAnswers } from "../../src/api/large-answers.ts";
import { startFakeHarness } from "../support/api-harness.ts";
import { makeWorld } from "../support/api-world.ts";
import { waitFor } from "../support/wait-for.ts";

const never = { schedule: () => () => undefined };
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it("regression: of many clients that ask for large events at once, a few are answered at a time: fifty filled V8's heap, which ended the process", async () => {
  await using first = await startFakeHarness();
  const { key, endpointId } = await makeWorld(first);
  const eventId = await first.newEvent(endpointId, { body: Buffer.alloc(2_000_000, "a") });
  const { management, queries } = first.fake;
  let reading = 0;
  let most = 0;
  let letGo = () => {};
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  await using harness = await startFakeHarness({
    management,
    queries: {
      ...queries,
      detail: async (orgId, id, beforeLarge) => {
        await beforeLarge?.();
        reading += 1;
        most = Math.max(most, reading);
        await gate;
        const detail = await queries.detail(orgId, id);
        reading -= 1;
        return detail;
      },
    },
  });
  const headers = { authorization: `Bearer ${key}` };
  const statuses = Array.from({ length: 12 }, async () => {
    const answer = await fetch(`${harness.baseUrl}/events/${eventId}`, { headers });
    await answer.arrayBuffer();
    return answer.status;
  });
  await waitFor("the first ones", () => reading === 4);
  for (let turns = 0; turns < 20; turns += 1) await turn();
  letGo();
  expect(new Set(await Promise.all(statuses))).toEqual(new Set([200]));
  expect(most).toBe(4);
});

it("the next place goes to the organization that has the fewest", async () => {
  const largeAnswers = makeLargeAnswers(never);
  const took: string[] = [];
  const ask = (orgId: string) => {
    const answer = largeAnswers(orgId);
    void answer.take().then(() => took.push(orgId));
    return answer;
  };
  const [one, two] = ["a", "a", "a", "a", "a", "b"].map(ask);
  await turn();
  expect(took).toEqual(["a", "a", "a", "a"]);
  one![Symbol.dispose]();
  await turn();
  expect(took).toEqual(["a", "a", "a", "a", "b"]);
  two![Symbol.dispose]();
  await turn();
  expect(took).toEqual(["a", "a", "a", "a", "b", "a"]);
});

it("one that has waited for too long is refused, and takes no place", async () => {
  const timeouts: (() => void)[] = [];
  const largeAnswers = makeLargeAnswers({
    schedule: (_, callback) => {
      timeouts.push(callback);
      return () => undefined;
    },
  });
  const held = [1, 2, 3, 4].map(() => largeAnswers("a"));
  await Promise.all(held.map((answer) => answer.take()));
  const late = largeAnswers("a");
  const refused = expect(late.take()).rejects.toMatchObject({ code: "rate_limited" });
  timeouts[0]!();
  await refused;
  late[Symbol.dispose]();
  for (const answer of held) answer[Symbol.dispose]();
  await Promise.all([1, 2, 3, 4].map(() => largeAnswers("a").take()));
});
