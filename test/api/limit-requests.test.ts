import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeLimitRequests, REQUESTS_PER_SECOND } from "../../src/api/limit-requests.ts";
import { makeTestClient, type TestClient } from "../support/api-harness.ts";
import { startApiRelay, type ApiRelay } from "../support/api-relay.ts";
import { SAMPLES, UNKNOWN_IDS, fillPath } from "../support/api-world.ts";

const actor = (keyId: string) => ({ orgId: "org_1", keyId, scopes: [] });

describe("the limit of requests of a key", () => {
  it("lets a second's worth through at once, then one by one", () => {
    let nowMs = 5_000;
    const limit = makeLimitRequests({ perSecond: 10, nowMs: () => nowMs });
    for (let turn = 0; turn < 10; turn += 1) expect(limit(actor("a"))).toBeNull();
    expect(limit(actor("a"))).toBeCloseTo(0.1);
    expect(limit(actor("b"))).toBeNull();
    nowMs += 100;
    expect(limit(actor("a"))).toBeNull();
    expect(limit(actor("a"))).toBeCloseTo(0.1);
    nowMs += 60_000;
    for (let turn = 0; turn < 10; turn += 1) expect(limit(actor("a"))).toBeNull();
    expect(limit(actor("a"))).not.toBeNull();
  });

  it("never lets more through than the burst and the rate allow, and never less", () => {
    const pauses = fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), pauses, (perSecond, waits) => {
        let nowMs = 0;
        let tokens = perSecond;
        const limit = makeLimitRequests({ perSecond, nowMs: () => nowMs });
        for (const waitMs of waits) {
          nowMs += waitMs;
          tokens = Math.min(perSecond, tokens + (waitMs * perSecond) / 1_000);
          const passes = tokens >= 1 - 1e-6;
          if (passes) tokens -= 1;
          expect(limit(actor("a")) === null).toBe(passes);
        }
      }),
    );
  });

  it("says how long to wait, and the wait is enough", () => {
    let nowMs = 0;
    const limit = makeLimitRequests({ perSecond: 0.5, nowMs: () => nowMs });
    expect(limit(actor("a"))).toBeNull();
    nowMs += 500;
    const waitSeconds = limit(actor("a")) ?? 0;
    expect(waitSeconds).toBeCloseTo(1.5);
    nowMs += waitSeconds * 1_000;
    expect(limit(actor("a"))).toBeNull();
  });
});

describe("the started service", () => {
  let relay: ApiRelay;
  let client: TestClient;
  beforeAll(async () => {
    // A key may make one request, and the next a quarter of an hour later.
    relay = await startApiRelay({}, { apiRequestsPerSecond: 0.001 });
    client = await makeTestClient({ baseUrl: relay.apiUrl }, null);
  });
  afterAll(() => relay[Symbol.asyncDispose]());

  it.each(SAMPLES.map(({ operation }) => operation))(
    "answers 429 with Retry-After to a key that asks too often: %s",
    async (operation) => {
      const { key } = await relay.newKey(["read", "write"], null);
      const first = await client.send({ method: "GET", path: "/projects", key });
      expect(first.status).toBe(200);
      const answer = await client.send({ ...fillPath(operation, UNKNOWN_IDS), key });
      expect(answer.status, answer.text).toBe(429);
      expect(answer.json.error.code).toBe("rate_limited");
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(900);
      const { key: another } = await relay.newKey(["read"], null);
      expect((await client.send({ method: "GET", path: "/projects", key: another })).status).toBe(
        200,
      );
    },
  );

  it("documents the limit", () => {
    const { description } = (client.document as unknown as { info: { description: string } }).info;
    expect(description).toContain(REQUESTS_PER_SECOND.toLocaleString("en"));
  });
});
