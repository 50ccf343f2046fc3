import { beforeEach, describe, expect, it } from "vitest";
import type { BundleKeys, EndpointBundle } from "../../src/domain/config-store.ts";
import { RelayError } from "../../src/domain/errors.ts";
import {
  makeConfigCache,
  type ConfigCache,
  type ConfigCacheOptions,
  type ConfigCachePorts,
} from "../../src/management/config-cache.ts";
import { destinationRow, endpointRow, testBox } from "../support/postgres-rows.ts";
import { makeSilentLogger, silentLogger } from "../support/silent-logger.ts";

const TTL_MS = 30_000;

/** Makes an in-memory store that counts its reads and can be switched off or slowed down. */
function makeFakeReader() {
  const bundles = new Map<string, EndpointBundle>();
  const asked: BundleKeys[] = [];
  const state = { down: false, gate: Promise.resolve() };
  return {
    bundles,
    asked,
    state,
    reader: {
      async bundles(keys: BundleKeys) {
        asked.push(keys);
        const found = [...bundles.values()].filter(
          ({ endpoint, destinations }) =>
            keys.tokens.includes(endpoint.token) ||
            keys.endpointIds.includes(endpoint.id) ||
            destinations.some(({ id }) => keys.destinationIds.includes(id)),
        );
        await state.gate;
        if (state.down) throw new RelayError("unavailable", "down");
        return found;
      },
      async newestEndpoints(count: number) {
        if (state.down) throw new RelayError("unavailable", "down");
        return [...bundles.values()].map(({ endpoint }) => endpoint.id).slice(0, count);
      },
    },
  };
}

function makeFakeClock() {
  let timeMs = 0;
  const timers = new Set<{ atMs: number; callback: () => void }>();
  return {
    clock: {
      monotonic: () => timeMs,
      schedule(delayMs: number, callback: () => void) {
        const timer = { atMs: timeMs + delayMs, callback };
        timers.add(timer);
        return () => void timers.delete(timer);
      },
    },
    advance(byMs: number) {
      timeMs += byMs;
      for (const timer of timers)
        if (timer.atMs <= timeMs) {
          timers.delete(timer);
          timer.callback();
        }
    },
  };
}

let store: ReturnType<typeof makeFakeReader>;
let time: ReturnType<typeof makeFakeClock>;
let cache: ConfigCache;

/** Makes a cache over `store` under `time`. */
function makeCache(
  ports: Partial<ConfigCachePorts> = {},
  options: Partial<ConfigCacheOptions> = {},
): ConfigCache {
  return makeConfigCache(
    {
      reader: store.reader,
      box: testBox,
      clock: time.clock,
      logger: silentLogger,
      isOurToken: (token) => token.startsWith("token-of-"),
      ...ports,
    },
    { ttlMs: TTL_MS, ...options },
  );
}

beforeEach(() => {
  store = makeFakeReader();
  time = makeFakeClock();
  cache = makeCache();
});

function save(endpoint = endpointRow(), destinations = [destinationRow()]) {
  store.bundles.set(endpoint.id, { endpoint, destinations });
}

async function settle() {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

const PUSH = { endpointId: "ep_1", token: "token-of-ep_1", destinationId: null } as const;

describe("configuration cache", () => {
  it("regression: a listener that throws keeps neither the others from being told nor an answer of the store from being taken: it was treated as unreachable", async () => {
    const told: string[] = [];
    cache.onChange(() => {
      throw new Error("not ready");
    });
    cache.onChange(({ endpointId }) => told.push(endpointId));
    const row = endpointRow({ id: "ep_told", token: "token-of-told" });
    store.bundles.set(row.id, { endpoint: row, destinations: [] });
    await cache.endpoint(row.id);
    cache.apply({ endpointId: row.id, token: row.token, destinationId: null });
    expect(told).toEqual([row.id]);
    store.bundles.delete(row.id);
    time.advance(TTL_MS);
    expect(await cache.endpoint(row.id)).toEqual({ kind: "missing" });
  });

  it("regression: a process that nobody has sent to yet knows its endpoints when the store goes away: it refused them all", async () => {
    for (let n = 1; n <= 250; n += 1)
      save(endpointRow({ id: `ep_${n}`, token: `token-of-ep_${n}` }), [
        destinationRow({ id: `dst_${n}`, endpointId: `ep_${n}` }),
      ]);
    expect(await cache.warm()).toBe(true);
    expect(store.asked.map(({ endpointIds }) => endpointIds.length)).toEqual([100, 100, 50]);
    store.state.down = true;
    for (const n of [1, 101, 250]) {
      expect(cache.endpointByToken(`token-of-ep_${n}`)).toMatchObject({ kind: "found" });
      expect(cache.destination(`dst_${n}`)).toMatchObject({ kind: "found" });
    }
    // What is known and unchanged is not read again.
    store.state.down = false;
    expect(await cache.warm()).toBe(true);
    expect(store.asked).toHaveLength(3);
  });

  it("says so when the store goes away while it is filled, and keeps what it has", async () => {
    for (let n = 1; n <= 250; n += 1)
      save(endpointRow({ id: `ep_${n}`, token: `token-of-ep_${n}` }), []);
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const warmed = cache.warm();
    await settle();
    store.state.down = true;
    open();
    expect(await warmed).toBe(false);
    expect(await cache.warm()).toBe(false);
    expect(store.asked).toHaveLength(1);
  });

  it("answers within three seconds while the store hangs, also for what was never loaded: providers wait ten", async () => {
    save();
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const lookup = cache.endpointByToken("token-of-ep_1");
    await settle();
    time.advance(3_000);
    expect(await lookup).toEqual({ kind: "unavailable" });
    open();
    await settle();
    expect(cache.endpointByToken("token-of-ep_1")).toMatchObject({ kind: "found" });
  });

  it("answers at once, without a promise, after the first load", async () => {
    save(
      endpointRow({
        provider: "github",
        verificationMethod: "hmac_sha256",
        methodIsExplicit: false,
      }),
    );
    expect(await cache.endpointByToken("token-of-ep_1")).toMatchObject({
      kind: "found",
      value: { id: "ep_1", secret: null, status: "active" },
    });
    expect(cache.endpointByToken("token-of-ep_1")).toMatchObject({ kind: "found" });
    expect(cache.endpoint("ep_1")).toMatchObject({ kind: "found" });
    expect(cache.destination("dst_1")).toMatchObject({
      kind: "found",
      value: {
        secrets: [{ secret: "whsec_one", signsUntilMs: null }],
        signatureHeaders: ["x-hub-signature-256", "x-hub-signature"],
      },
    });
    expect(cache.destinationsOf("ep_1")).toMatchObject({ kind: "found", value: [{ id: "dst_1" }] });
    expect(store.asked).toHaveLength(1);
  });

  it.each([true, false])(
    "hands on what is stored, field by field: whose it is, how it is verified (method chosen explicitly: %s), where it goes",
    async (methodIsExplicit) => {
      const settings = { secret: "shh", config: { header: "X-Signature" } };
      const whereTo = {
        orgId: "org_7",
        receiverUrl: "https://other.example/",
        forwardOriginalSignature: true,
        status: "disabled",
        retryMaxAttempts: 2,
        retryBackoff: "fixed",
        rateLimitMax: 9,
        rateLimitWindow: "hour",
      } as const;
      save(
        endpointRow({
          orgId: "org_7",
          provider: "github",
          verificationMethod: "hmac_sha1",
          methodIsExplicit,
          status: "paused",
          sealed: testBox.seal(settings, "ep_1"),
        }),
        [destinationRow(whereTo)],
      );
      expect(await cache.endpoint("ep_1")).toEqual({
        kind: "found",
        value: {
          id: "ep_1",
          orgId: "org_7",
          status: "paused",
          provider: "github",
          method: "hmac_sha1",
          methodIsExplicit,
          ...settings,
        },
      });
      expect(cache.destination("dst_1")).toEqual({
        kind: "found",
        value: {
          id: "dst_1",
          endpointId: "ep_1",
          ...whereTo,
          secrets: [{ secret: "whsec_one", signsUntilMs: null }],
          signatureHeaders: methodIsExplicit ? ["x-signature"] : ["x-signature", "x-hub-signature"],
          updatedAtMs: 1_000,
        },
      });
    },
  );

  it("asks the store once for many simultaneous lookups", async () => {
    for (let index = 0; index < 50; index += 1)
      save(endpointRow({ id: `ep_${index}` }), [
        destinationRow({ id: `dst_${index}`, endpointId: `ep_${index}` }),
      ]);
    await Promise.all(
      Array.from({ length: 1_000 }, async (_, index) =>
        cache.endpointByToken(`token-of-ep_${index % 50}`),
      ),
    );
    expect(store.asked).toHaveLength(1);
  });

  it("answers every one of thousands of simultaneous lookups, with questions of five hundred keys at most", async () => {
    const ids = Array.from({ length: 1_201 }, (_, index) => `ep_${index}`);
    for (const id of ids.slice(1)) save(endpointRow({ id }), []);
    const answers = await Promise.all(ids.map(async (id) => cache.endpoint(id)));
    expect(answers[0]).toEqual({ kind: "missing" });
    for (const [index, id] of ids.slice(1).entries())
      expect(answers[index + 1]).toMatchObject({ kind: "found", value: { id } });
    expect(store.asked.map(({ endpointIds }) => endpointIds.length)).toEqual([500, 500, 201]);
  });

  it("answers with the question that is underway: a burst for an endpoint of thousands of destinations does not wait for a second one", async () => {
    save();
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const first = cache.endpointByToken("token-of-ep_1");
    await settle();
    const second = cache.endpointByToken("token-of-ep_1");
    await settle();
    store.state.gate = new Promise(() => undefined);
    open();
    await settle();
    time.advance(3_000);
    expect(await first).toMatchObject({ kind: "found" });
    expect(await second).toMatchObject({ kind: "found" });
    expect(store.asked).toHaveLength(1);
  });

  it("asks one question at a time, also after a turn in which several were looked up", async () => {
    const ids = ["ep_1", "ep_2", "ep_3"];
    for (const id of ids) save(endpointRow({ id }), []);
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const first = [cache.endpoint("ep_1"), cache.endpoint("ep_2")];
    await settle();
    const last = cache.endpoint("ep_3");
    await settle();
    expect(store.asked.map(({ endpointIds }) => endpointIds)).toEqual([["ep_1", "ep_2"]]);
    open();
    for (const lookup of [...first, last]) expect(await lookup).toMatchObject({ kind: "found" });
    expect(store.asked).toHaveLength(2);
  });

  it("lets no more than twenty thousand keys wait for a store that hangs", async () => {
    store.state.gate = new Promise(() => undefined);
    void cache.endpoint("ep_first");
    await settle();
    for (let waiting = 0; waiting < 20_000; waiting += 1) void cache.endpoint(`ep_${waiting}`);
    const answer = await Promise.race([cache.endpoint("ep_more"), settle()]);
    expect(answer).toEqual({ kind: "unavailable" });
  });

  it("does not answer with a question that was asked before a change", async () => {
    save();
    await cache.endpointByToken("token-of-ep_1");
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    cache.apply(PUSH);
    await settle();
    save(endpointRow({ status: "paused" }));
    cache.apply(PUSH);
    const lookup = cache.endpointByToken("token-of-ep_1");
    open();
    expect(await lookup).toMatchObject({ kind: "found", value: { status: "paused" } });
    expect(store.asked).toHaveLength(3);
  });

  it("does not ask the store about tokens that were never made here", () => {
    for (let index = 0; index < 1_000; index += 1)
      expect(cache.endpointByToken(`scan-${index}`)).toEqual({ kind: "missing" });
    expect(store.asked).toHaveLength(0);
  });

  it("remembers that a token is missing until it is pushed", async () => {
    expect(await cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
    expect(cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
    save();
    cache.apply(PUSH);
    expect(await cache.endpointByToken("token-of-ep_1")).toMatchObject({ kind: "found" });
  });

  it("remembers that a destination is missing until it is pushed, also where nothing else of its endpoint is known", async () => {
    expect(await cache.destination("dst_1")).toEqual({ kind: "missing" });
    expect(cache.destination("dst_1")).toEqual({ kind: "missing" });
    save();
    cache.apply({ ...PUSH, destinationId: "dst_1" });
    expect(await cache.destination("dst_1")).toMatchObject({ kind: "found" });
  });

  it("asks again for what was missing after its time to live: what was made meanwhile may not have been pushed", async () => {
    expect(await cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
    save();
    time.advance(TTL_MS - 1);
    expect(cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
    time.advance(1);
    expect(await cache.endpointByToken("token-of-ep_1")).toMatchObject({ kind: "found" });
  });

  it("counts the age of what is missing from the moment the store was asked, too", async () => {
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const first = cache.endpointByToken("token-of-ep_1");
    await settle();
    time.advance(2_000);
    open();
    expect(await first).toEqual({ kind: "missing" });
    save();
    time.advance(TTL_MS - 2_000);
    expect(await cache.endpointByToken("token-of-ep_1")).toMatchObject({ kind: "found" });
  });

  it("finds a destination before anything else of its endpoint was looked up, as a process does that takes over deliveries", async () => {
    save();
    expect(await cache.destination("dst_1")).toMatchObject({ kind: "found" });
    expect(cache.destination("dst_1")).toMatchObject({ kind: "found" });
    expect(store.asked).toEqual([{ tokens: [], endpointIds: [], destinationIds: ["dst_1"] }]);
  });

  it("never serves an entry that is older than its time to live", async () => {
    save();
    await cache.endpoint("ep_1");
    save(endpointRow({ status: "paused", updatedAtMs: 2_000 }));
    time.advance(TTL_MS);
    expect(await cache.endpoint("ep_1")).toMatchObject({ value: { status: "paused" } });
  });

  it("loads an entry in the background from half of its time to live on", async () => {
    save();
    await cache.endpoint("ep_1");
    save(endpointRow({ status: "paused", updatedAtMs: 2_000 }));
    time.advance(TTL_MS / 2 + 1);
    expect(cache.endpoint("ep_1")).toMatchObject({ value: { status: "active" } });
    await settle();
    expect(cache.endpoint("ep_1")).toMatchObject({ value: { status: "paused" } });
  });

  it("counts the age of an entry from the moment the store was asked", async () => {
    save();
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => {
      open = resolve;
    });
    const first = cache.endpoint("ep_1");
    await settle();
    time.advance(TTL_MS - 1);
    open();
    await first;
    time.advance(1);
    expect(cache.endpoint("ep_1")).toBeInstanceOf(Promise);
  });

  it("tells when the store answers again: only that it did not was told", async () => {
    const lines: string[] = [];
    const telling = makeCache({
      logger: makeSilentLogger((level, message) => lines.push(`${level} ${message}`)),
    });
    save();
    for (const isDown of [false, true, false, false]) {
      store.state.down = isDown;
      telling.invalidateAll();
      await telling.endpoint("ep_1");
      time.advance(TTL_MS);
    }
    expect(lines).toEqual(["warn config.load_failed", "info config.load_restored"]);
  });

  it("regression: that the store does not answer is told at once, then once a minute with how often: it was a line a second", async () => {
    const told: object[] = [];
    const telling = makeCache({ logger: makeSilentLogger((_, __, fields) => told.push(fields)) });
    save();
    store.state.down = true;
    for (let second = 0; second < 150; second += 1) {
      await telling.endpoint("ep_1");
      time.advance(1_000);
    }
    expect(told).toMatchObject([{ times: 1 }, { times: 60 }, { times: 60 }]);
  });

  it("regression: an outage counts from the first question that failed: one that hung for seconds was left out", async () => {
    const told: object[] = [];
    const telling = makeCache({ logger: makeSilentLogger((_, __, fields) => told.push(fields)) });
    save();
    store.state.down = true;
    let answer = (): void => undefined;
    store.state.gate = new Promise((resolve) => (answer = resolve));
    const asked = telling.endpoint("ep_1");
    await Promise.resolve();
    time.advance(8_000);
    answer();
    await asked;
    store.state.down = false;
    time.advance(2_000);
    await telling.endpoint("ep_1");
    expect(told.at(-1)).toEqual({ afterMs: 10_000, untold: 0 });
  });

  it("tells of each outage how long it was, however many questions failed meanwhile", async () => {
    const told: unknown[] = [];
    const telling = makeCache({
      logger: makeSilentLogger((_, message, { afterMs }: { afterMs?: number }) => {
        if (message === "config.load_restored") told.push(afterMs);
      }),
    });
    save();
    for (const isDown of [true, true, false, true, false]) {
      store.state.down = isDown;
      telling.invalidateAll();
      await telling.endpoint("ep_1");
      time.advance(30_000);
    }
    expect(told).toEqual([60_000, 30_000]);
  });

  it("leaves the store alone for a second once it has failed, also where that took long", async () => {
    save();
    let fail: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (fail = resolve));
    store.state.down = true;
    const first = cache.endpoint("ep_1");
    await settle();
    time.advance(8_000);
    fail();
    expect(await first).toEqual({ kind: "unavailable" });
    await settle();
    store.state.down = false;
    time.advance(999);
    expect(await cache.endpoint("ep_1")).toEqual({ kind: "unavailable" });
    time.advance(1);
    expect(await cache.endpoint("ep_1")).toMatchObject({ kind: "found" });
    expect(store.asked).toHaveLength(2);
  });

  it("holds few endpoints of large configurations: four thousand took the memory of the process", async () => {
    const bounded = makeCache({}, { maxStoredBytes: 100_000 });
    const config = { public_key: "x".repeat(40_000) };
    for (const id of ["ep_1", "ep_2", "ep_3"])
      save(endpointRow({ id, sealed: testBox.seal({ secret: null, config }, id) }), []);
    for (const id of ["ep_1", "ep_2", "ep_3"]) await bounded.endpoint(id);
    expect(bounded.endpoint("ep_3")).toMatchObject({ kind: "found" });
    expect(bounded.endpoint("ep_2")).toMatchObject({ kind: "found" });
    expect(bounded.endpoint("ep_1")).toBeInstanceOf(Promise);
    const huge = { public_key: "x".repeat(200_000) };
    save(
      endpointRow({ id: "ep_4", sealed: testBox.seal({ secret: null, config: huge }, "ep_4") }),
      [],
    );
    expect(await bounded.endpoint("ep_4")).toMatchObject({ kind: "found" });
    // One that is larger than the limit is kept alone.
    expect(bounded.endpoint("ep_4")).toMatchObject({ kind: "found" });
  });

  it("holds few endpoints of many destinations", async () => {
    const bounded = makeCache({}, { maxStoredBytes: 100_000 });
    const ids = ["ep_1", "ep_2", "ep_3"];
    for (const endpointId of ids) {
      const destinations = Array.from({ length: 100 }, (_, index) =>
        destinationRow({ id: `dst_${index}_of_${endpointId}`, endpointId }),
      );
      save(endpointRow({ id: endpointId }), destinations);
    }
    for (const id of ids) await bounded.endpoint(id);
    expect(bounded.endpoint("ep_3")).toMatchObject({ kind: "found" });
    expect(bounded.endpoint("ep_2")).toMatchObject({ kind: "found" });
    expect(bounded.endpoint("ep_1")).toBeInstanceOf(Promise);
  });

  it("regression: what one answer of the store held is not missing where it is too large to be kept together: webhooks were answered 404, and deliveries ended dead", async () => {
    const bounded = makeCache({}, { maxStoredBytes: 100_000 });
    const config = { public_key: "x".repeat(40_000) };
    const ids = ["ep_1", "ep_2", "ep_3"];
    for (const id of ids)
      save(endpointRow({ id, sealed: testBox.seal({ secret: null, config }, id) }), [
        destinationRow({ id: `dst_of_${id}`, endpointId: id }),
      ]);
    const lookUps: readonly ((id: string) => unknown)[] = [
      (id) => bounded.endpointByToken(`token-of-${id}`),
      (id) => bounded.endpoint(id),
      (id) => bounded.destination(`dst_of_${id}`),
    ];
    for (const lookUp of lookUps) {
      bounded.invalidateAll();
      const answers = await Promise.all(["ep_none", ...ids].map(async (id) => lookUp(id)));
      expect(answers).toMatchObject(
        ["missing", "found", "found", "found"].map((kind) => ({ kind })),
      );
      expect(bounded.endpoint("ep_1")).toBeInstanceOf(Promise);
      await bounded.endpoint("ep_1");
    }
    await bounded.endpoint("ep_2");
    await bounded.endpoint("ep_3");
    store.bundles.delete("ep_1");
    expect(await bounded.endpoint("ep_1")).toEqual({ kind: "missing" });
  });

  it("keeps of a key set what is read of its keys: 60 KB of empty objects beside them took twenty times as much", async () => {
    const other = Array.from({ length: 10_000 }, () => ({}));
    const key = { kty: "OKP", crv: "Ed25519", x: "AAAA", kid: "k1" };
    const keys = [
      { ...key, use: "sig", key_ops: ["verify"], other },
      { ...key, use: "enc" },
      { ...key, kid: other },
    ];
    const config = { algorithms: ["EdDSA"], issuer: "me", jwks: { keys, other } };
    save(endpointRow({ sealed: testBox.seal({ secret: null, config }, "ep_1") }), []);
    const { kid, ...unnamed } = key;
    expect(await cache.endpoint("ep_1")).toMatchObject({
      kind: "found",
      value: { config: { ...config, jwks: { keys: [{ ...unnamed, kid }, unnamed] } } },
    });
    const found = await cache.endpoint("ep_1");
    expect(JSON.stringify(found)).not.toContain("other");
  });

  it("serves a pushed change at the next lookup", async () => {
    save();
    await cache.endpoint("ep_1");
    for (const status of ["paused", "active", "disabled"] as const) {
      save(endpointRow({ status, updatedAtMs: 2_000 }));
      cache.apply(PUSH);
      expect(await cache.endpoint("ep_1")).toMatchObject({ value: { status } });
    }
  });

  it("regression: opens only the secrets that are new: a change of one destination opened those of all the thousands beside it", async () => {
    const opened: string[] = [];
    const counting = makeCache({
      box: {
        ...testBox,
        open(sealed, rowId) {
          opened.push(rowId);
          return testBox.open(sealed, rowId);
        },
      },
    });
    const renewed = testBox.seal([{ secret: "whsec_two", signsUntilMs: null }], "dst_2");
    const second = destinationRow({ id: "dst_2" });
    save(endpointRow(), [destinationRow(), second, destinationRow({ id: "dst_3" })]);
    await counting.endpoint("ep_1");
    opened.length = 0;
    save(endpointRow(), [
      destinationRow({ name: "renamed", updatedAtMs: 2_000 }),
      { ...second, sealed: renewed },
      store.bundles.get("ep_1")!.destinations[2]!,
    ]);
    counting.apply({ ...PUSH, destinationId: "dst_1" });
    const found = await counting.destinationsOf("ep_1");
    expect(opened).toEqual(["ep_1", "dst_1", "dst_2"]);
    expect(found).toMatchObject({
      value: [["whsec_one"], ["whsec_two"], ["whsec_one"]].map(([secret]) => ({
        secrets: [{ secret }],
      })),
    });
  });

  it("does not trust an answer that was asked for before a change was pushed", async () => {
    save();
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => {
      open = resolve;
    });
    const first = cache.endpoint("ep_1");
    await settle();
    save(endpointRow({ status: "paused", updatedAtMs: 2_000 }));
    cache.apply(PUSH);
    open();
    await first;
    expect(await cache.endpoint("ep_1")).toMatchObject({ value: { status: "paused" } });
  });

  it("does not remember as missing what was created while the store was asked", async () => {
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => {
      open = resolve;
    });
    const first = cache.endpointByToken("token-of-ep_1");
    await settle();
    save();
    cache.apply(PUSH);
    open();
    expect(await first).toEqual({ kind: "missing" });
    expect(await cache.endpointByToken("token-of-ep_1")).toMatchObject({ kind: "found" });
  });

  it("does not find an endpoint by the token that it had before", async () => {
    save();
    await cache.endpoint("ep_1");
    save(endpointRow({ token: "token-of-now" }));
    cache.apply({ ...PUSH, token: "token-of-now" });
    expect(await cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
    expect(cache.endpointByToken("token-of-now")).toMatchObject({ kind: "found" });
    expect(await cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
  });

  it("forgets a deleted endpoint and its destinations", async () => {
    save();
    await cache.endpoint("ep_1");
    store.bundles.clear();
    cache.apply(PUSH);
    expect(await cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "missing" });
    expect(await cache.destination("dst_1")).toEqual({ kind: "missing" });
    expect(await cache.destinationsOf("ep_1")).toEqual({ kind: "missing" });
  });

  it("serves stale entries while the store is down, and says unavailable for what it never knew", async () => {
    save();
    await cache.endpoint("ep_1");
    store.state.down = true;
    time.advance(TTL_MS * 100);
    expect(await cache.endpoint("ep_1")).toMatchObject({ kind: "found" });
    expect(cache.endpoint("ep_1")).toMatchObject({ kind: "found" });
    expect(await cache.endpoint("ep_other")).toEqual({ kind: "unavailable" });
    expect(await cache.endpointByToken("token-of-other")).toEqual({ kind: "unavailable" });
    const asked = store.asked.length;
    for (let index = 0; index < 100; index += 1) await cache.endpoint("ep_1");
    expect(store.asked).toHaveLength(asked);
  });

  it("answers at once what waited for the next question when the one ahead of it fails", async () => {
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const first = cache.endpoint("ep_1");
    await settle();
    const second = cache.endpoint("ep_2");
    store.state.down = true;
    open();
    expect(await first).toEqual({ kind: "unavailable" });
    store.state.gate = new Promise(() => undefined);
    expect(await second).toEqual({ kind: "unavailable" });
    expect(store.asked).toHaveLength(1);
  });

  it("comes back to the truth when the store is up again", async () => {
    save();
    await cache.endpoint("ep_1");
    store.state.down = true;
    time.advance(TTL_MS);
    await cache.endpoint("ep_1");
    save(endpointRow({ status: "paused", updatedAtMs: 2_000 }));
    store.state.down = false;
    time.advance(1_001);
    expect(await cache.endpoint("ep_1")).toMatchObject({ value: { status: "paused" } });
  });

  it("serves the stale entry when the store hangs", async () => {
    save();
    await cache.endpoint("ep_1");
    time.advance(TTL_MS);
    store.state.gate = new Promise(() => undefined);
    const answer = cache.endpoint("ep_1");
    await settle();
    time.advance(1_000);
    expect(await answer).toMatchObject({ kind: "found" });
  });

  it("does not wait again and again for a store that hangs", async () => {
    save();
    await cache.endpoint("ep_1");
    store.state.gate = new Promise(() => undefined);
    time.advance(TTL_MS);
    const waited = cache.endpoint("ep_1");
    expect(waited).toBeInstanceOf(Promise);
    await settle();
    time.advance(1_000);
    expect(await waited).toMatchObject({ kind: "found" });
    for (let more = 0; more < 9; more += 1) {
      expect(cache.endpoint("ep_1")).toMatchObject({ kind: "found" });
      time.advance(100);
    }
    time.advance(100);
    expect(cache.endpoint("ep_1")).toBeInstanceOf(Promise);
  });

  it("does not trust an answer that was asked for before pushes may have been lost", async () => {
    save(endpointRow({ status: "active" }));
    let open: () => void = () => undefined;
    store.state.gate = new Promise((resolve) => (open = resolve));
    const lookups = [cache.endpoint("ep_1"), cache.endpoint("ep_2")];
    await settle();
    save(endpointRow({ status: "paused" }));
    save(endpointRow({ id: "ep_2", token: "token-of-ep_2" }), []);
    cache.invalidateAll();
    open();
    for (const lookup of lookups) await lookup;
    expect(await cache.endpoint("ep_1")).toMatchObject({ value: { status: "paused" } });
    expect(await cache.endpoint("ep_2")).toMatchObject({ kind: "found" });
  });

  it("loads everything anew after pushes may have been lost", async () => {
    save();
    await cache.endpoint("ep_1");
    save(endpointRow({ status: "paused", updatedAtMs: 2_000 }));
    expect(await cache.endpointByToken("token-of-ep_2")).toEqual({ kind: "missing" });
    save(endpointRow({ id: "ep_2" }), []);
    cache.invalidateAll();
    expect(await cache.endpoint("ep_1")).toMatchObject({ value: { status: "paused" } });
    expect(await cache.endpointByToken("token-of-ep_2")).toMatchObject({ kind: "found" });
  });

  it("regression: listeners learn what they missed though nobody uses it: a deletion that was not pushed was never heard of", async () => {
    for (const id of ["ep_1", "ep_2", "ep_3"])
      save(endpointRow({ id, token: `token-of-${id}` }), [
        destinationRow({ id: `dst_of_${id}`, endpointId: id }),
      ]);
    expect(await cache.warm()).toBe(true);
    const seen: unknown[] = [];
    let gaps = 0;
    cache.onChange((changed) => seen.push(changed));
    const stop = cache.onGap(() => (gaps += 1));
    save(endpointRow({ id: "ep_1", token: "token-of-ep_1" }), []);
    store.bundles.delete("ep_2");
    cache.invalidateAll();
    expect(gaps).toBe(1);
    store.state.down = true;
    expect(await cache.reload()).toBe(false);
    expect(seen).toEqual([]);
    store.state.down = false;
    time.advance(1_000);
    expect(await cache.reload()).toBe(true);
    expect(seen).toContainEqual({ endpointId: "ep_1", destinationId: "dst_of_ep_1" });
    expect(seen).toContainEqual({ endpointId: "ep_2", destinationId: null });
    expect(seen).toContainEqual({ endpointId: "ep_2", destinationId: "dst_of_ep_2" });
    expect(seen).not.toContainEqual(expect.objectContaining({ endpointId: "ep_3" }));
    const asked = store.asked.length;
    expect(await cache.reload()).toBe(true);
    expect(store.asked).toHaveLength(asked);
    stop();
    cache.invalidateAll();
    expect(gaps).toBe(1);
  });

  it("regression: what was used last is kept longest, also after all was loaded anew: it went first, or as its id was", async () => {
    const small = makeCache({}, { maxEndpoints: 3 });
    for (const id of ["ep_1", "ep_2", "ep_3", "ep_4"])
      save(endpointRow({ id, token: `token-of-${id}` }), []);
    for (const id of ["ep_2", "ep_3", "ep_1"]) await small.endpoint(id);
    small.invalidateAll();
    expect(await small.reload()).toBe(true);
    await small.endpoint("ep_4");
    store.state.down = true;
    for (const id of ["ep_1", "ep_3"]) expect(small.endpoint(id)).toMatchObject({ kind: "found" });
    expect(await small.endpoint("ep_2")).toEqual({ kind: "unavailable" });
  });

  it("tells listeners what was pushed and what a reload brought to light", async () => {
    const seen: unknown[] = [];
    const stop = cache.onChange((changed) => seen.push(changed));
    save(endpointRow(), [destinationRow(), destinationRow({ id: "dst_2" })]);
    await cache.endpoint("ep_1");
    expect(seen).toEqual([]);
    save(endpointRow(), [destinationRow({ status: "paused", updatedAtMs: 2_000 })]);
    time.advance(TTL_MS);
    await cache.endpoint("ep_1");
    expect(seen).toContainEqual({ endpointId: "ep_1", destinationId: "dst_1" });
    expect(seen).toContainEqual({ endpointId: "ep_1", destinationId: "dst_2" });
    seen.length = 0;
    const { endpoint, destinations } = store.bundles.get("ep_1")!;
    save(endpoint, [...destinations, destinationRow({ id: "dst_3" })]);
    time.advance(TTL_MS);
    await cache.endpoint("ep_1");
    expect(seen).toEqual([{ endpointId: "ep_1", destinationId: "dst_3" }]);
    seen.length = 0;
    cache.apply({ ...PUSH, destinationId: "dst_1" });
    expect(seen).toEqual([{ endpointId: "ep_1", destinationId: "dst_1" }]);
    stop();
    cache.apply(PUSH);
    expect(seen).toHaveLength(1);
  });

  it.each([
    ["settings", { receiverUrl: "https://other.example/", updatedAtMs: 2_000 }],
    ["status, within the same millisecond", { status: "paused" }],
    ["secrets, within the same millisecond", { sealed: testBox.seal([], "dst_1") }],
    // Regression: written under a clock that was behind, these have the time of the change before them, and nobody was told.
    ["receiver, under the same time", { receiverUrl: "https://other.example/" }],
    ["rate limit, under the same time", { rateLimitMax: 5, rateLimitWindow: "day" }],
    ["number of retries, under the same time", { retryMaxAttempts: 0 }],
    ["backoff, under the same time", { retryBackoff: "fixed" }],
    ["forwarded signature, under the same time", { forwardOriginalSignature: true }],
  ] as const)(
    "tells listeners of a destination that differs in nothing but its %s, though nothing was pushed",
    async (_, fields) => {
      const row = destinationRow();
      const endpoint = endpointRow();
      save(endpoint, [row, destinationRow({ id: "dst_2" })]);
      await cache.endpoint("ep_1");
      const seen: unknown[] = [];
      cache.onChange((changed) => seen.push(changed));
      save(endpoint, [{ ...row, ...fields }, store.bundles.get("ep_1")!.destinations[1]!]);
      time.advance(TTL_MS);
      await cache.endpoint("ep_1");
      expect(seen).toEqual([{ endpointId: "ep_1", destinationId: "dst_1" }]);
    },
  );

  it("answers unavailable, not missing, for an endpoint whose secret cannot be opened", async () => {
    save(endpointRow({ sealed: new Uint8Array(60) }));
    expect(await cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "unavailable" });
    expect(cache.endpointByToken("token-of-ep_1")).toEqual({ kind: "unavailable" });
    expect(store.asked).toHaveLength(1);
  });
});
