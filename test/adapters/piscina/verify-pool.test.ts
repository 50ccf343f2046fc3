import { makeSystemClock } from "../../../src/app/system-clock.ts";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startVerifyPool } from "../../../src/adapters/piscina/verify-pool.ts";
import type { RunningVerifyPool } from "../../../src/adapters/piscina/verify-pool.ts";
import { makeVerifier } from "../../../src/pipeline/verify/verifier.ts";
import { countMetrics, makeRequest, makeSignedRequest } from "../../support/verify-requests.ts";

const clock = makeSystemClock();
const faultyWorker = new URL("../../support/faulty-verify-worker.ts", import.meta.url);

describe("a pool of two threads", () => {
  let pool: RunningVerifyPool;
  beforeAll(async () => {
    pool = await startVerifyPool({ threads: 2 });
  });
  afterAll(async () => {
    await pool[Symbol.asyncDispose]();
  });

  it("verifies large bodies in threads and small ones inline, with the same verdicts", async () => {
    const metrics = countMetrics();
    await using verifier = makeVerifier({ pool, jwks: null, metrics, clock });
    const large = makeSignedRequest(200_000);
    const forged = { ...large, body: Buffer.alloc(200_000, "b") };
    expect(await verifier.verify(large)).toEqual({ valid: true, reason: "ok", message: null });
    expect(await verifier.verify(forged)).toMatchObject({ reason: "signature_mismatch" });
    expect(verifier.verify(makeSignedRequest(100))).toMatchObject({ valid: true });
    expect(metrics.verifiedBy).toEqual({ inline: 1, pool: 2 });
  });

  it("gathers the requests of one loop turn into few batches and answers each its own", async () => {
    const metrics = countMetrics();
    await using verifier = makeVerifier({
      pool,
      jwks: null,
      metrics,
      clock,
      limits: { inlineMaxBytes: 0 },
    });
    const results = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const parts = index % 3 === 0 ? { config: { header: "X-Other" } } : {};
        return verifier.verify(makeSignedRequest(index + 1, parts));
      }),
    );
    for (const [index, result] of results.entries()) {
      expect(result).toMatchObject({
        reason: index % 3 === 0 ? "missing_signature_header" : "ok",
      });
    }
    expect(metrics.batches.length).toBeLessThanOrEqual(4);
  });

  it("leaves the caller's body as it was", async () => {
    await using verifier = makeVerifier({ pool, jwks: null, metrics: countMetrics(), clock });
    const request = makeSignedRequest(100_000);
    await verifier.verify(request);
    expect(request.body.byteLength).toBe(100_000);
    expect(request.body[99_999]).toBe("a".charCodeAt(0));
  });
});

describe("a pool whose worker fails", () => {
  for (const fault of ["loop", "exit", "throw"] as const) {
    it(`is whole again after a ${fault}: that request is unavailable once its time is over, the next one works`, async () => {
      const errors: Error[] = [];
      await using pool = await startVerifyPool({
        threads: 1,
        workerUrl: faultyWorker,
        onWorkerError: (error) => errors.push(error),
      });
      const metrics = countMetrics();
      await using verifier = makeVerifier({
        pool,
        jwks: null,
        metrics,
        clock,
        limits: { inlineMaxBytes: 0, runMs: 2500 },
      });
      expect(await verifier.verify(makeSignedRequest(10))).toMatchObject({ valid: true });

      const url = `https://relay.example/fault-${fault}`;
      expect(await verifier.verify(makeRequest({ url }))).toBe("unavailable");
      expect(metrics.failures).toEqual(["worker_lost"]);

      // The new thread first loads TypeScript, which on a busy machine may outlast a request's time.
      await vi.waitFor(
        async () =>
          expect(await verifier.verify(makeSignedRequest(10))).toMatchObject({ valid: true }),
        { timeout: 30_000 },
      );
    }, 60_000);
  }
});
