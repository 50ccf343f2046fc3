import { TIMERS } from "../../../src/domain/clock.ts";
import { describe, expect, it } from "vitest";
import type { VerificationResult } from "../../../src/domain/verification.ts";
import { makeBodySlabs } from "../../../src/pipeline/verify/body-slabs.ts";
import type { VerifyPool } from "../../../src/pipeline/verify/pool-queue.ts";
import { makeBatchVerifier, packBatch } from "../../../src/pipeline/verify/verify-batch.ts";
import type { VerifyBatch } from "../../../src/pipeline/verify/verify-batch.ts";
import { makeVerifier } from "../../../src/pipeline/verify/verifier.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";
import { countMetrics, makeRequest, makeSignedRequest } from "../../support/verify-requests.ts";

/** Makes a pool whose batches end when the test says so. */
function makeHeldPool(threads: number) {
  const held: { batch: VerifyBatch; release: () => void; fail: () => void }[] = [];
  const verify = makeBatchVerifier();
  const pool: VerifyPool = {
    threads,
    run: (batch, signal) =>
      new Promise<readonly VerificationResult[]>((resolve, reject) => {
        const fail = (): void => reject(new Error("worker lost"));
        signal.addEventListener("abort", fail);
        held.push({ batch, release: () => resolve(verify(batch)), fail });
      }),
  };
  return { pool, held };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function setUp(limits: object = {}, threads = 1) {
  const { pool, held } = makeHeldPool(threads);
  const errors: unknown[] = [];
  const metrics = countMetrics();
  const clock = { nowMs: 0 };
  const verifier = makeVerifier({
    pool,
    jwks: null,
    metrics,
    clock: { monotonic: () => clock.nowMs, ...TIMERS },
    limits: { inlineMaxBytes: 0, ...limits },
    onError: (error) => errors.push(error),
  });
  return { verifier, held, metrics, clock, errors };
}

describe("which requests are verified inline", () => {
  const signed = (sizeBytes: number) => makeSignedRequest(sizeBytes);
  const token = { method: "jwt", config: { algorithms: ["RS256"], public_key: "x" } } as const;
  it.each([
    ["a small body", signed(100), true],
    ["a large body", signed(101), false],
    [
      "a bearer token with a large body",
      makeRequest({ method: "bearer_token", body: Buffer.alloc(101) }),
      true,
    ],
    ["a token", makeRequest(token), false],
    [
      "a token whose keys are fetched",
      makeRequest({
        method: "jwt",
        config: { algorithms: ["RS256"], jwks_url: "https://keys.example.com/" },
      }),
      false,
    ],
  ])("%s", async (_, request, isInline) => {
    const { verifier, held } = setUp({ inlineMaxBytes: 100 });
    expect(verifier.isInline(request)).toBe(isInline);
    const verifying = verifier.verify(request);
    expect(verifying instanceof Promise).toBe(!isInline);
    await turn();
    for (const { release } of held) release();
    await verifying;
  });
});

describe("the queue before the pool", () => {
  it("answers unavailable at once when it is full, by number or by bytes", async () => {
    const few = setUp({ maxQueued: 2 });
    const waiting = [1, 2].map(async () => few.verifier.verify(makeSignedRequest(10)));
    expect(await few.verifier.verify(makeSignedRequest(10))).toBe("unavailable");
    const small = setUp({ maxQueuedBytes: 100 });
    expect(await small.verifier.verify(makeSignedRequest(101))).toBe("unavailable");
    expect([...few.metrics.failures, ...small.metrics.failures]).toEqual([
      "queue_full",
      "queue_full",
    ]);
    await turn();
    for (const { release } of few.held) release();
    expect(await Promise.all(waiting)).toMatchObject([{ valid: true }, { valid: true }]);
  });

  it("leaves room for others when one endpoint floods it: a flood at one URL got every endpoint 503", async () => {
    const flooded = { header: "X-Signature" };
    for (const limits of [{ maxQueued: 8 }, { maxQueuedBytes: 80 }]) {
      const { verifier, held } = setUp(limits);
      const flood = Array.from({ length: 20 }, async () =>
        verifier.verify(makeSignedRequest(10, { config: flooded })),
      );
      const others = Array.from({ length: 3 }, async () =>
        verifier.verify(makeSignedRequest(10, { config: { header: "X-Signature" } })),
      );
      await turn();
      for (const { release } of held) release();
      expect(await Promise.all(others)).toMatchObject(others.map(() => ({ valid: true })));
      const results = await Promise.all(flood);
      expect(results.filter((result) => result !== "unavailable")).toHaveLength(4);
    }
  });

  it("lets endpoints take turns: what came behind a flood waited for all of it", async () => {
    const { verifier, held } = setUp({ maxBatch: 2 });
    const flooded = { header: "X-Signature" };
    const flood = Array.from({ length: 20 }, async () =>
      verifier.verify(makeSignedRequest(10, { config: flooded })),
    );
    const other = verifier.verify(makeSignedRequest(10, { config: { header: "X-Signature" } }));
    await turn();
    held[0]?.release();
    expect(await other).toMatchObject({ valid: true });
    expect(held.length).toBeLessThan(4);
    for (const { release } of held) release();
    await verifier[Symbol.asyncDispose]();
    await Promise.all(flood);
  });

  it("does not mix bodies with tokens: forged ones for a hundred keys, five a second at one endpoint, got every other's large bodies 503", async () => {
    const { verifier, held, metrics } = setUp();
    const config = { algorithms: ["RS256"], public_key: "x" };
    const tokens = Array.from({ length: 20 }, async () =>
      verifier.verify(makeRequest({ method: "jwt", config })),
    );
    const body = verifier.verify(makeSignedRequest(10));
    await turn();
    expect(metrics.batches).toEqual([16, 1]);
    held[1]?.release();
    expect(await body).toMatchObject({ valid: true });
    for (let index = 0; index < 4; index += 1) {
      held[index]?.release();
      await turn();
    }
    expect(await Promise.all(tokens)).toHaveLength(20);
    expect(metrics.batches).toEqual([16, 1, 4]);
  });

  it("has room for the largest body that can be configured: those above 64 MiB were 503 for ever", async () => {
    const { verifier, held } = setUp();
    const largest = Promise.resolve(verifier.verify(makeSignedRequest(104_857_600)));
    await turn();
    held[0]?.release();
    expect(await largest).toMatchObject({ valid: true });
  });

  it("lets batches grow while the threads are busy, within their bounds", async () => {
    const { verifier, held, metrics } = setUp({ maxBatch: 8 });
    const all: Promise<unknown>[] = [];
    for (let index = 0; index < 22; index += 1) {
      all.push(Promise.resolve(verifier.verify(makeSignedRequest(10))));
      await turn();
    }
    expect(held.length).toBe(2);
    for (let index = 0; index < 8 && held[index] !== undefined; index += 1) {
      held[index]?.release();
      await turn();
    }
    expect(await Promise.all(all)).toHaveLength(22);
    expect(Math.max(...metrics.batches)).toBe(8);
  });

  it("fills a batch up to its limit in bytes, and no further: what follows is the next one's", async () => {
    const { verifier, held, metrics } = setUp({ maxBatch: 8, maxBatchBytes: 100 });
    const busy = [1, 1].map(async (size) => verifier.verify(makeSignedRequest(size)));
    await turn();
    const all = [60, 40, 60, 41, 500].map(async (size) => verifier.verify(makeSignedRequest(size)));
    for (let index = 0; index < 6; index += 1) {
      held[index]?.release();
      await turn();
    }
    expect(await Promise.all([...busy, ...all])).toHaveLength(7);
    expect(metrics.batches).toEqual([2, 2, 1, 1, 1]);
  });

  it("has its whole room again once requests have left it", async () => {
    const { verifier, held } = setUp({ maxQueuedBytes: 100 });
    for (let round = 0; round < 10; round += 1) {
      const both = [20, 20].map(async (size) => verifier.verify(makeSignedRequest(size)));
      await turn();
      held[round]?.release();
      expect(await Promise.all(both)).toMatchObject([{ valid: true }, { valid: true }]);
    }
  });

  it("gives an endpoint its whole part again once its requests have left", async () => {
    const { verifier, held } = setUp({ maxQueuedBytes: 100 });
    const config = { header: "X-Signature" };
    for (let round = 0; round < 10; round += 1) {
      const verifying = verifier.verify(makeSignedRequest(40, { config }));
      await turn();
      held[round]?.release();
      expect(await verifying).toMatchObject({ valid: true });
    }
  });

  it("leaves the other thread its half of what waits", async () => {
    const { verifier, held, metrics } = setUp({}, 2);
    const all = Array.from({ length: 10 }, async () => verifier.verify(makeSignedRequest(10)));
    await turn();
    expect(metrics.batches[0]).toBe(5);
    for (const { release } of held) release();
    await Promise.all(all);
  });

  it("gives up what has waited too long and still answers the rest", async () => {
    const { verifier, held, metrics, clock } = setUp({ waitMs: 1000, maxBatch: 1 });
    const [one, two, late] = [1, 2, 3].map(async () => verifier.verify(makeSignedRequest(10)));
    await turn();
    clock.nowMs = 1001;
    const fresh = verifier.verify(makeSignedRequest(10));
    held[0]?.release();
    expect(await one).toMatchObject({ valid: true });
    expect(await late).toBe("unavailable");
    held[1]?.release();
    expect(await two).toMatchObject({ valid: true });
    await turn();
    held[2]?.release();
    expect(await fresh).toMatchObject({ valid: true });
    expect(metrics.failures).toEqual(["too_late"]);
  });

  it("answers a batch whose worker is lost, or loops, with unavailable", async () => {
    const { verifier, held, metrics, errors } = setUp({ runMs: 50 });
    const lost = verifier.verify(makeSignedRequest(10));
    await turn();
    held[0]?.fail();
    expect(await lost).toBe("unavailable");
    expect(await verifier.verify(makeSignedRequest(10))).toBe("unavailable");
    expect(metrics.failures).toEqual(["worker_lost", "worker_lost"]);
    // A batch that took too long is no error of its own.
    expect(errors).toMatchObject([{ message: "worker lost" }]);
  });

  it("stops with an answer for everybody", async () => {
    const { verifier, held, metrics } = setUp({ maxBatch: 1 });
    const token = makeRequest({
      method: "jwt",
      config: { algorithms: ["RS256"], public_key: "x" },
    });
    const all = [1, 2, 3].map(async () => verifier.verify(makeSignedRequest(10)));
    const tokens = [1, 2].map(async () => verifier.verify(token));
    await turn();
    expect(held).toHaveLength(3);
    let isStopped = false;
    const stopping = verifier[Symbol.asyncDispose]().then(() => (isStopped = true));
    await turn();
    expect(isStopped).toBe(false);
    for (const { release } of held) release();
    await stopping;
    expect(await Promise.all(all)).toMatchObject([{ valid: true }, { valid: true }, "unavailable"]);
    expect(await Promise.all(tokens)).toMatchObject([{ reason: "invalid_config" }, "unavailable"]);
    expect(await verifier.verify(makeSignedRequest(10))).toBe("unavailable");
    expect(metrics.failures).toEqual(["stopped", "stopped", "stopped"]);
  });
});

describe("what goes where", () => {
  it.each(["bearer_token", "basic_auth", "ip_allowlist", "none"] as const)(
    "%s stays on the loop, however large the body",
    (method) => {
      const { verifier, held } = setUp();
      const body = Buffer.alloc(1_000_000);
      expect(verifier.verify(makeRequest({ method, config: {}, body }))).toHaveProperty("reason");
      expect(held).toEqual([]);
    },
  );

  it("tokens of public keys go to the pool, those of a shared secret stay", async () => {
    const { verifier, held } = setUp({ inlineMaxBytes: 1000 });
    const shared = makeRequest({ method: "jwt", config: { algorithms: ["HS256"] } });
    expect(verifier.verify(shared)).toMatchObject({ reason: "missing_token" });
    const config = { algorithms: ["RS256"], public_key: "x" };
    const pooled = verifier.verify(makeRequest({ method: "jwt", config }));
    await turn();
    held[0]?.release();
    expect(await pooled).toMatchObject({ reason: "invalid_config" });
  });
});

describe("a request that is only hashed", () => {
  it.each([
    ["hmac_sha256", { header: "X-Signature" }],
    ["twilio_signature", {}],
    ["jwt", { algorithms: ["HS256"], body_hash_claim: "h" }],
  ] as const)("of %s goes to the pool when its body is large", async (method, config) => {
    const { verifier, held } = setUp({ inlineMaxBytes: 1000 });
    const ofSize = (sizeBytes: number) =>
      makeRequest({ method, config, body: Buffer.alloc(sizeBytes, "a") });
    expect(verifier.verify(ofSize(1000))).toHaveProperty("reason");
    const pooled = verifier.verify(ofSize(1001));
    await turn();
    expect(held).toHaveLength(1);
    held[0]?.release();
    expect(await pooled).toHaveProperty("reason");
  });
});

describe("a batch", () => {
  it("carries bodies and shared configurations to the worker unchanged", () => {
    const slabs = makeBodySlabs(2);
    const config = { header: "X-Signature" };
    const requests = [0, 1, 3000].map((sizeBytes) => makeSignedRequest(sizeBytes, { config }));
    const batch = packBatch(requests, (sizeBytes) => slabs.take(sizeBytes));
    expect((JSON.parse(batch.json) as { configs: string[] }).configs).toHaveLength(1);
    expect(makeBatchVerifier()(batch).every(({ valid }) => valid)).toBe(true);
  });

  it("reuses memory, but neither too much nor too large pieces of it", () => {
    const slabs = makeBodySlabs(1);
    const slab = slabs.take(10);
    slabs.giveBack(slab);
    expect(slabs.take(20)).toBe(slab);
    expect(slabs.take(20)).not.toBe(slab);
    const large = slabs.take(3 * 1024 * 1024);
    expect(large.byteLength).toBe(4 * 1024 * 1024);
    slabs.giveBack(slab);
    slabs.giveBack(large);
    expect(slabs.take(1)).toBe(large);
    const huge = slabs.take(17 * 1024 * 1024);
    slabs.giveBack(huge);
    expect(slabs.take(1)).not.toBe(huge);
  });

  it("keeps few large configurations: two thousand took a gigabyte of each thread", () => {
    const verify = makeBatchVerifier();
    const take = (sizeBytes: number): SharedArrayBuffer => new SharedArrayBuffer(sizeBytes);
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < 1_000; index += 1) {
      const config = { prefix: String(index).padEnd(60_000) };
      verify(packBatch([makeRequest({ config })], take));
    }
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(60_000_000);
  });

  it("forgets the oldest configurations of very many", () => {
    const verify = makeBatchVerifier();
    const take = (sizeBytes: number): SharedArrayBuffer => new SharedArrayBuffer(sizeBytes);
    for (let index = 0; index < 2100; index += 1) {
      const config = { header: "X-Signature", prefix: String(index) };
      const [result] = verify(packBatch([makeRequest({ config })], take));
      expect(result?.reason).toBe("missing_signature_header");
    }
  });
});
