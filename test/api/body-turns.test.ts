import { describe, expect, it } from "vitest";
import { makeApi } from "../../src/api/api.ts";
import { ApiFake } from "../support/api-fake.ts";
import { countTurns } from "../support/count-turns.ts";
import { silentLogger } from "../support/silent-logger.ts";

const LARGE = 40;

/** Makes a sender whose answers are noted as they come. */
function makeSender() {
  const fake = new ApiFake();
  const key = fake.addKey("org_a");
  const answered: string[] = [];
  const app = makeApi({
    management: fake.management,
    queries: fake.queries,
    logger: silentLogger,
    newRequestId: () => "req_1",
    now: () => 0,
    monotonicMs: () => 0,
    version: "0.0.0",
  });
  const send = async (name: string, path: string, body: string): Promise<number> => {
    const { status } = await app.request(path, {
      method: "POST",
      body,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    });
    answered.push(name);
    return status;
  };
  return { fake, send, answered };
}

describe("large bodies of requests", () => {
  it("regression: are parsed one in each turn of the event loop: those of one caller kept webhooks waiting for seconds, and other callers for 13 s", async () => {
    const { send } = makeSender();
    const body = JSON.stringify({ name: "x".repeat(100_000) });
    using turns = countTurns();
    const statuses = await Promise.all(
      Array.from({ length: LARGE }, () => send("large", "/projects", body)),
    );
    expect(new Set(statuses)).toEqual(new Set([400]));
    expect(turns.count).toBeGreaterThanOrEqual(LARGE - 1);
  });

  it("take turns where the operation takes none, too", async () => {
    const { fake, send } = makeSender();
    const endpointId = fake.newId("endpoint", 0);
    const body = JSON.stringify({ name: "x".repeat(100_000) });
    using turns = countTurns();
    const path = `/endpoints/${endpointId}/pause`;
    const statuses = await Promise.all(
      Array.from({ length: LARGE }, () => send("large", path, body)),
    );
    expect(new Set(statuses)).toEqual(new Set([400]));
    expect(turns.count).toBeGreaterThanOrEqual(LARGE - 1);
  });

  it("keep no small one waiting", async () => {
    const { send, answered } = makeSender();
    const large = JSON.stringify({ name: "x".repeat(100_000) });
    const sent = Array.from({ length: LARGE }, () => send("large", "/projects", large));
    sent.push(send("small", "/projects", JSON.stringify({ name: "Billing" })));
    expect((await Promise.all(sent)).at(-1)).toBe(201);
    expect(answered.indexOf("small")).toBeLessThan(LARGE / 2);
  });
});
