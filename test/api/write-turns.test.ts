import { describe, expect, it } from "vitest";
import { SimClock } from "../support/sim-clock.ts";
import { makeApi } from "../../src/api/api.ts";
import { makeWriteTurns } from "../../src/api/write-turns.ts";
import { ApiFake } from "../support/api-fake.ts";
import { silentLogger } from "../support/silent-logger.ts";

/** Makes writes that end on demand. */
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

  it("are those of the API: it begins four at once, and answers reads beside them", async () => {
    const fake = new ApiFake();
    const key = fake.addKey("org_a");
    const { management } = fake;
    let begun = 0;
    const app = makeApi({
      management: {
        ...management,
        projects: {
          ...management.projects,
          create: () => {
            begun += 1;
            return new Promise(() => {});
          },
        },
      },
      queries: fake.queries,
      logger: silentLogger,
      newRequestId: () => "req_1",
      now: () => 0,
      monotonicMs: () => 0,
      version: "0.0.0",
    });
    const send = (method: string, body: string | null) =>
      app.request("/projects", {
        method,
        body,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      });
    for (let index = 0; index < 20; index += 1) void send("POST", '{"name":"Billing"}');
    expect((await send("GET", null)).status).toBe(200);
    for (let turns = 0; turns < 20; turns += 1) await settle();
    expect(begun).toBe(4);
  });
});
