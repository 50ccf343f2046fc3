import { TIMERS } from "../../../src/domain/clock.ts";
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import type { VerificationRequest } from "../../../src/domain/verification.ts";
import { makeReplaceJwksUrl } from "../../../src/pipeline/verify/fetched-jwks.ts";
import { makeJwksCache } from "../../../src/pipeline/verify/jwks-cache.ts";
import type { FetchJwks } from "../../../src/pipeline/verify/jwks-cache.ts";
import type { JwksEntriesLimits } from "../../../src/pipeline/verify/jwks-entries.ts";
import { makeVerifyPorts, verifyRequest } from "../../../src/pipeline/verify/verify-request.ts";
import { makeVerifier } from "../../../src/pipeline/verify/verifier.ts";
import { countMetrics, makeRequest } from "../../support/verify-requests.ts";
import { cpuSecondsOf } from "../../support/cpu-seconds.ts";

const URL = "https://keys.example/jwks";
const CONFIG = { algorithms: ["EdDSA"], jwks_url: URL };

function makeKey(kid: string): { jwk: object; request: Promise<VerificationRequest> } {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const request = new SignJWT({})
    .setProtectedHeader({ alg: "EdDSA", kid })
    .sign(privateKey)
    .then((token) =>
      makeRequest({
        method: "jwt",
        config: CONFIG,
        headers: [["Authorization", `Bearer ${token}`]],
      }),
    );
  return { jwk: { ...publicKey.export({ format: "jwk" }), kid }, request };
}

/** Makes a key server whose answer the test sets, and a clock that it advances. */
function makeKeyServer(keys: readonly object[], limits?: JwksEntriesLimits) {
  const server = {
    answer: (): Promise<string> => Promise.resolve(JSON.stringify({ keys })),
    fetches: 0,
    nowMs: 0,
  };
  const fetchJwks: FetchJwks = () => {
    server.fetches += 1;
    return server.answer();
  };
  const cache = makeJwksCache({
    fetchJwks,
    clock: { ...TIMERS, monotonic: () => server.nowMs },
    ...(limits === undefined ? {} : { limits }),
  });
  return { server, cache, ports: makeVerifyPorts(cache) };
}

const first = makeKey("k1");
const second = makeKey("k2");

describe("keys behind a jwks_url", () => {
  it("regression: are fetched again after a fetcher that threw at once: its failure was the answer for as long as the process ran", async () => {
    const { server, ports } = makeKeyServer([first.jwk]);
    const request = await first.request;
    const { answer } = server;
    server.answer = () => {
      throw new Error("not a URL");
    };
    expect(await verifyRequest(request, ports)).toMatchObject({ valid: false });
    server.answer = answer;
    server.nowMs += 10_000;
    expect(await verifyRequest(request, ports)).toMatchObject({ valid: true });
  });

  it("are fetched once for many requests at the same time and then cached", async () => {
    const { server, ports } = makeKeyServer([first.jwk]);
    const request = await first.request;
    const results = await Promise.all(
      Array.from({ length: 20 }, async () => verifyRequest(request, ports)),
    );
    expect(results.every(({ valid }) => valid)).toBe(true);
    expect(await verifyRequest(request, ports)).toMatchObject({ valid: true });
    expect(server.fetches).toBe(1);
    server.nowMs += 5 * 60_000 + 1;
    await verifyRequest(request, ports);
    expect(server.fetches).toBe(2);
  });

  it("are fetched again for a token of a new key, but not for every forged one", async () => {
    const { server, ports } = makeKeyServer([first.jwk]);
    expect(await verifyRequest(await first.request, ports)).toMatchObject({ valid: true });
    expect(await verifyRequest(await second.request, ports)).toMatchObject({
      reason: "unknown_key_id",
    });
    expect(server.fetches).toBe(2);
    expect(await verifyRequest(await second.request, ports)).toMatchObject({
      reason: "unknown_key_id",
    });
    expect(server.fetches).toBe(2);
    server.nowMs += 11_000;
    server.answer = () => Promise.resolve(JSON.stringify({ keys: [first.jwk, second.jwk] }));
    expect(await verifyRequest(await second.request, ports)).toMatchObject({ valid: true });
    const forged = makeKey("k3");
    for (let index = 0; index < 10; index += 1) await verifyRequest(await forged.request, ports);
    expect(server.fetches).toBe(3);
  });

  it("are known when they are rotated right behind a fetch: their webhooks were refused for ten seconds", async () => {
    const { server, ports } = makeKeyServer([first.jwk]);
    expect(await verifyRequest(await first.request, ports)).toMatchObject({ valid: true });
    server.answer = () => Promise.resolve(JSON.stringify({ keys: [second.jwk] }));
    expect(await verifyRequest(await second.request, ports)).toMatchObject({ valid: true });
    expect(server.fetches).toBe(2);
  });

  it("are fetched once for all that wait for a new key at the same time, and not for one who has seen older ones", async () => {
    const { server, cache, ports } = makeKeyServer([first.jwk]);
    const seen = await cache.get(URL);
    server.answer = () => Promise.resolve(JSON.stringify({ keys: [second.jwk] }));
    const request = await second.request;
    const results = await Promise.all([1, 2, 3].map(async () => verifyRequest(request, ports)));
    expect(results).toMatchObject([{ valid: true }, { valid: true }, { valid: true }]);
    expect(server.fetches).toBe(2);
    server.nowMs += 10_000;
    await cache.refresh(URL, (seen as { readonly jwks: object }).jwks);
    expect(server.fetches).toBe(2);
  });

  it("are asked for once in ten seconds while their URL cannot be reached, however many webhooks come", async () => {
    const { server, ports } = makeKeyServer([first.jwk]);
    server.answer = () => Promise.reject(new Error("connection refused"));
    const request = await first.request;
    for (server.nowMs of [0, 1, 5_000, 9_999]) await verifyRequest(request, ports);
    expect(server.fetches).toBe(1);
    server.nowMs = 10_000;
    await verifyRequest(request, ports);
    expect(server.fetches).toBe(2);
  });

  it("go into the same configuration again, by which an endpoint has its part of the pool and its imported keys", async () => {
    const replaceJwksUrl = makeReplaceJwksUrl();
    const request = await first.request;
    const jwks = { keys: [first.jwk] };
    const { config } = replaceJwksUrl(request, jwks);
    expect(config).toEqual({ algorithms: ["EdDSA"], jwks });
    expect(replaceJwksUrl({ ...request }, jwks).config).toBe(config);
    const others = { keys: [second.jwk] };
    expect(replaceJwksUrl(request, others).config).toEqual({ algorithms: ["EdDSA"], jwks: others });
  });

  it.each([
    ["of the same kind", generateKeyPairSync("ed25519")],
    ["of another kind", generateKeyPairSync("ec", { namedCurve: "P-256" })],
  ])(
    "without a name that are rotated to one %s are fetched again",
    async (_, { publicKey, privateKey }) => {
      const { kid: _kid, ...unnamed } = first.jwk as { readonly kid: string };
      const { server, cache, ports } = makeKeyServer([unnamed]);
      await cache.get(URL);
      const alg = publicKey.asymmetricKeyType === "ec" ? "ES256" : "EdDSA";
      const token = await new SignJWT({}).setProtectedHeader({ alg }).sign(privateKey);
      const config = { algorithms: [alg], jwks_url: URL };
      const headers = [["Authorization", `Bearer ${token}`]] as const;
      const keys = [publicKey.export({ format: "jwk" })];
      server.answer = () => Promise.resolve(JSON.stringify({ keys }));
      const request = makeRequest({ method: "jwt", config, headers });
      expect(await verifyRequest(request, ports)).toMatchObject({ valid: true });
      expect(server.fetches).toBe(2);
    },
  );

  it("go on to serve for an hour while their URL cannot be reached", async () => {
    const { server, ports } = makeKeyServer([first.jwk]);
    const request = await first.request;
    await verifyRequest(request, ports);
    server.answer = () => Promise.reject(new Error("connection refused"));
    server.nowMs += 10 * 60_000;
    expect(await verifyRequest(request, ports)).toMatchObject({ valid: true });
    server.nowMs += 60 * 60_000;
    expect(await verifyRequest(request, ports)).toMatchObject({
      reason: "jwks_unavailable",
      message: expect.stringContaining("connection refused"),
    });
  });

  it.each([
    ["no JSON", "<html>", /not JSON/],
    ["no key set", "{}", /must be a JWK set/],
    ["too much", " ".repeat(300_000), /too large/],
  ])("that are %s refuse the request and say so", async (_what, answer, message) => {
    const { server, ports } = makeKeyServer([]);
    server.answer = () => Promise.resolve(answer);
    const result = await verifyRequest(await first.request, ports);
    expect(result).toMatchObject({ reason: "jwks_unavailable" });
    expect(result.message).toMatch(message);
  });

  it("are given up when the server does not answer", async () => {
    const { server, ports } = makeKeyServer([]);
    server.answer = () => new Promise(() => {});
    const result = await verifyRequest(await first.request, ports);
    expect(result.message).toContain("no answer within");
  });

  it("are not fetched where nobody fetches", async () => {
    const result = await verifyRequest(await first.request, makeVerifyPorts(null));
    expect(result).toMatchObject({ reason: "jwks_unavailable" });
  });

  it("are kept without what else stands beside them: it took gigabytes and came along with every batch", async () => {
    const other = Array.from({ length: 20_000 }, () => ({}));
    const unusable = { kty: "oct", k: "c2VjcmV0", other };
    const { server, cache, ports } = makeKeyServer([]);
    const jwk = { ...first.jwk, alg: "EdDSA" };
    const keys = [{ ...jwk, use: "sig", key_ops: ["verify"], other }, unusable];
    server.answer = () => Promise.resolve(JSON.stringify({ keys, other }));
    const kept = await cache.get(URL);
    expect(kept).toEqual({ ok: true, jwks: { keys: [jwk] } });
    expect(await verifyRequest(await first.request, ports)).toMatchObject({ valid: true });
    expect(await verifyRequest(await second.request, ports)).toMatchObject({
      reason: "unknown_key_id",
    });
  });

  it("are bounded in number: those unused for longest are forgotten", async () => {
    const { server, cache } = makeKeyServer([first.jwk], { maxUrls: 20, maxBytes: 1_000_000 });
    for (let index = 0; index <= 20; index += 1) await cache.get(`${URL}/${index}`);
    expect(server.fetches).toBe(21);
    for (const index of [3, 20]) await cache.get(`${URL}/${index}`);
    expect(server.fetches).toBe(21);
    await cache.get(`${URL}/2`);
    expect(server.fetches).toBe(22);
  });

  it("regression: of another customer are not forgotten for thousands of URLs that have none, nor for large sets", async () => {
    const { server, cache } = makeKeyServer([first.jwk], { maxUrls: 20, maxBytes: 5_000 });
    await cache.get(URL);
    const { answer } = server;
    server.answer = () => Promise.reject(new Error("no keys here"));
    for (let index = 0; index < 100; index += 1) await cache.get(`${URL}/${index}`);
    const many = Array.from({ length: 20 }, () => first.jwk);
    server.answer = () => Promise.resolve(JSON.stringify({ keys: many }));
    for (let index = 100; index < 110; index += 1) await cache.get(`${URL}/${index}`);
    server.answer = answer;
    const { fetches } = server;
    expect(await cache.get(URL)).toEqual({ ok: true, jwks: { keys: [first.jwk] } });
    expect(server.fetches).toBe(fetches);
    await cache.get(`${URL}/100`);
    expect(server.fetches).toBe(fetches + 1);
  });

  it("take no more room for being fetched again: another customer's would be forgotten for them", async () => {
    const { server, cache } = makeKeyServer([first.jwk], { maxUrls: 20, maxBytes: 1_000 });
    await cache.get(`${URL}/other`);
    for (let count = 0; count < 20; count += 1) {
      server.nowMs = count * 60_000;
      const seen = await cache.get(URL);
      if (seen.ok) await cache.refresh(URL, seen.jwks);
    }
    const { fetches } = server;
    server.answer = () => Promise.reject(new Error("connection refused"));
    server.nowMs = 30 * 60_000;
    expect(await cache.get(`${URL}/other`)).toMatchObject({ ok: true });
    expect(server.fetches).toBe(fetches + 1);
  });

  it("regression: are fetched anew for a key that is not known, once they were forgotten: its webhooks were refused", async () => {
    const { server, cache } = makeKeyServer([first.jwk], { maxUrls: 2, maxBytes: 1_000_000 });
    const seen = await cache.get(URL);
    for (const index of [1, 2, 3]) await cache.get(`${URL}/${index}`);
    const { fetches } = server;
    expect(await cache.refresh(URL, (seen as { readonly jwks: object }).jwks)).toMatchObject({
      ok: true,
    });
    expect(server.fetches).toBe(fetches + 1);
  });

  it("regression: an RSA exponent of 140 KB is refused at once: it held the process for 80 s", async () => {
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const huge = { ...publicKey.export({ format: "jwk" }), e: "a".repeat(190_000) };
    const { cache } = makeKeyServer([huge]);
    const seconds = await cpuSecondsOf(async () =>
      expect(await cache.get(URL)).toMatchObject({
        ok: false,
        message: expect.stringContaining("holds no usable public key") as string,
      }),
    );
    expect(seconds).toBeLessThan(5);
    expect((await cache.get(URL)).ok).toBe(false);
  });

  it("reach the pool as keys, never as a URL", async () => {
    const { cache } = makeKeyServer([first.jwk]);
    const seen: string[] = [];
    await using verifier = makeVerifier({
      pool: {
        threads: 1,
        run: (batch) => {
          seen.push(batch.json);
          return Promise.resolve([{ valid: true, reason: "ok", message: null }]);
        },
      },
      jwks: cache,
      metrics: countMetrics(),
      clock: { ...TIMERS, monotonic: () => performance.now() },
    });
    expect(await verifier.verify(await first.request)).toMatchObject({ valid: true });
    expect(seen.join()).toContain("Ed25519");
    expect(seen.join()).not.toContain(URL);
  });
});
