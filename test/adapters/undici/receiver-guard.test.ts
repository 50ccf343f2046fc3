import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_CIDRS, parseCidrs } from "../../../src/domain/ip.ts";
import { makeHttpSender } from "../../../src/adapters/undici/http-sender.ts";
import {
  ReceiverGuard,
  ReceiverRefusedError,
} from "../../../src/adapters/undici/receiver-guard.ts";
import { makeSystemResolver } from "../../../src/adapters/undici/resolve-host.ts";
import { A, startDns } from "../../support/dns.ts";
import { startReceiver, type Receiver } from "../../support/undici-receivers.ts";

interface Vector {
  readonly url: string;
  readonly verdict: "accept" | "reject";
  readonly why: string;
  readonly stage: "static" | "policy" | "dns";
  readonly resolves_to?: readonly string[];
}
const vectors = JSON.parse(
  readFileSync(new URL("../../vectors/receiver-urls.json", import.meta.url), "utf8"),
) as Vector[];
const never = new AbortController().signal;
const post = (url: string) => ({ url, headers: [], body: Buffer.from("secret payload") });
const loopback = parseCidrs(["127.0.0.0/8", "::1/128"]);

describe("vectors", () => {
  test.each(vectors)("at write: $verdict $url ($why)", async ({ url, verdict, resolves_to }) => {
    await using sender = makeHttpSender({
      allowPrivate: NO_CIDRS,
      timeoutMs: 1_000,
      resolve: async () => resolves_to ?? ["93.184.215.14"],
    });
    expect((await sender.checkReceiver(url)).ok).toBe(verdict === "accept");
  });

  test.each(vectors.filter((vector) => vector.verdict === "reject"))(
    "at connect: nothing is sent to $url ($why)",
    async ({ url, resolves_to }) => {
      await using sender = makeHttpSender({
        allowPrivate: NO_CIDRS,
        timeoutMs: 1_000,
        resolve: async () => resolves_to ?? ["127.0.0.1"],
      });
      let sent = 0;
      const reply = await sender.send(post(url), never, () => (sent += 1));
      expect(reply.kind === "error" && reply.reason).toMatch(/^receiver /);
      expect(sent).toBe(0);
    },
  );
});

describe("rebinding", () => {
  let canary: Receiver;
  let requests = 0;
  beforeAll(async () => {
    canary = await startReceiver((_req, res) => {
      requests += 1;
      res.end();
    });
  });
  afterAll(() => canary[Symbol.asyncDispose]());

  test("a name that was public when written and is private when dialled never reaches the canary, in 1,000 tries", async () => {
    const answers = [
      ["127.0.0.1"],
      ["8.8.8.8", "127.0.0.1"],
      ["127.0.0.1", "8.8.8.8"],
      ["::1"],
      ["::ffff:127.0.0.1"],
      ["0.0.0.0"],
      [],
    ];
    let dialling = false;
    let turn = 0;
    await using sender = makeHttpSender({
      allowPrivate: NO_CIDRS,
      timeoutMs: 5_000,
      resolve: async () => (dialling ? (answers[turn++ % answers.length] ?? []) : ["8.8.8.8"]),
    });
    const url = `https://rebind.example.com:${canary.port}/`;
    expect(await sender.checkReceiver(url)).toEqual({ ok: true });
    dialling = true;
    for (let batch = 0; batch < 20; batch += 1) {
      const replies = await Promise.all(
        Array.from({ length: 50 }, () => sender.send(post(url), never)),
      );
      for (const reply of replies) expect(reply).toMatchObject({ kind: "error" });
    }
    expect(turn).toBeGreaterThan(0);
    expect(canary.connections()).toBe(0);
    expect(requests).toBe(0);
  });

  test("without allowed ranges a literal loopback address is refused although sockets skip lookup for it", async () => {
    await using sender = makeHttpSender({ allowPrivate: NO_CIDRS, timeoutMs: 1_000 });
    for (const host of ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "localhost"])
      expect(await sender.send(post(`https://${host}:${canary.port}/`), never)).toMatchObject({
        kind: "error",
      });
    expect(canary.connections()).toBe(0);
  });

  test("with loopback allowed, localhost and names that resolve there are reached over plain http", async () => {
    await using sender = makeHttpSender({
      allowPrivate: loopback,
      timeoutMs: 20_000,
      resolve: async () => ["127.0.0.1"],
    });
    for (const host of ["localhost", "receiver.test", "127.0.0.1"]) {
      const url = `http://${host}:${canary.port}/`;
      expect(await sender.checkReceiver(url)).toEqual({ ok: true });
      expect(await sender.send(post(url), never)).toMatchObject({ kind: "response", status: 200 });
    }
  });
});

test("localhost and the names below it are this machine's allowed addresses alone, and are never looked up", async () => {
  const addressesOf = (host: string, allowed: string): Promise<readonly string[]> => {
    const resolve = () => Promise.reject(new Error("was looked up"));
    const allowPrivate = parseCidrs([allowed]);
    return new ReceiverGuard({ allowPrivate, resolve, resolveTimeoutMs: 1_000 }).addresses(
      host,
      true,
    );
  };
  for (const host of ["localhost", "a.localhost"]) {
    expect(await addressesOf(host, "127.0.0.0/8")).toEqual(["127.0.0.1"]);
    expect(await addressesOf(host, "::1/128")).toEqual(["::1"]);
    await expect(addressesOf(host, "10.0.0.0/8")).rejects.toThrow(ReceiverRefusedError);
  }
});

test("regression: of a name with thousands of addresses only the first are checked and dialled: each try knocked at all of them, and held up the process for a tenth of a second", async () => {
  const addresses = Array.from({ length: 4_000 }, (_, at) => `8.8.${at >> 8}.${at & 255}`);
  const guard = new ReceiverGuard({
    allowPrivate: NO_CIDRS,
    // What is never dialled need not be public.
    resolve: async () => [...addresses, "127.0.0.1"],
    resolveTimeoutMs: 1_000,
  });
  const dialled = await guard.addresses("many.example.com", false);
  expect(dialled).toEqual(addresses.slice(0, dialled.length));
  expect(dialled.length).toBeGreaterThanOrEqual(32);
  expect(dialled.length).toBeLessThanOrEqual(64);
});

describe("resolution at write", () => {
  const failing = (code: string) => async () => {
    throw Object.assign(new Error(code), { code });
  };

  test("a name that resolves to a private address is refused without that address: whoever writes URLs could look up this network's names", async () => {
    await using sender = makeHttpSender({
      allowPrivate: NO_CIDRS,
      timeoutMs: 1_000,
      resolve: async () => ["10.1.2.3"],
    });
    const reason = "receiver host db.example.com resolves to an address that is not public";
    expect(await sender.checkReceiver("https://db.example.com/")).toEqual({ ok: false, reason });
    const reply = await sender.send(post("https://db.example.com/"), never);
    expect(reply.kind === "error" && reply.reason).toContain(reason);
  });

  test("a public name that does not resolve yet is accepted; a private one, or plain http, is not", async () => {
    await using sender = makeHttpSender({
      allowPrivate: loopback,
      timeoutMs: 1_000,
      resolve: failing("ENOTFOUND"),
    });
    expect(await sender.checkReceiver("https://new.example.com/")).toEqual({ ok: true });
    expect(await sender.checkReceiver("http://new.example.com/")).toMatchObject({
      ok: false,
      reason: "must be https, and does not resolve into the allowed private ranges",
    });
    expect(await sender.checkReceiver("https://receiver/")).toMatchObject({ ok: false });
  });

  test("plain http to a name that resolves to a public address is refused", async () => {
    await using sender = makeHttpSender({
      allowPrivate: loopback,
      timeoutMs: 1_000,
      resolve: async () => ["8.8.8.8"],
    });
    expect(await sender.checkReceiver("http://new.example.com/")).toMatchObject({ ok: false });
    let sent = 0;
    const target = post("http://new.example.com/");
    const reply = await sender.send(target, never, () => (sent += 1));
    expect(reply).toMatchObject({ kind: "error" });
    expect(sent).toBe(0);
  });

  test("a resolver that hangs does not hold the write", async () => {
    await using sender = makeHttpSender({
      allowPrivate: NO_CIDRS,
      timeoutMs: 1_000,
      resolve: () => new Promise(() => {}),
    });
    expect(await sender.checkReceiver("https://slow.example.com/")).toEqual({ ok: true });
  });

  test("a resolver that hangs is a timeout of the try", async () => {
    await using sender = makeHttpSender({
      allowPrivate: NO_CIDRS,
      timeoutMs: 200,
      resolve: () => new Promise(() => {}),
    });
    expect(await sender.send(post("https://slow.example.com/"), never)).toMatchObject({
      kind: "timeout",
    });
  });

  test("the system resolver knows the names of the hosts file", async () => {
    expect(await makeSystemResolver({ timeoutMs: 500, tries: 1 })("localhost")).toContain(
      "127.0.0.1",
    );
  });

  test("regression: it knows them also where DNS does not answer: a receiver of this machine was refused, and not delivered to", async () => {
    await using dns = await startDns(() => null);
    const resolve = makeSystemResolver({
      timeoutMs: 100,
      tries: 1,
      servers: () => [`127.0.0.1:${dns.port}`],
    });
    expect(await resolve("LocalHost")).toContain("127.0.0.1");
    await expect(resolve("receiver.example.com")).rejects.toMatchObject({ code: "ETIMEOUT" });
    const guard = new ReceiverGuard({
      allowPrivate: parseCidrs(["127.0.0.0/8"]),
      resolve,
      resolveTimeoutMs: 5_000,
    });
    expect(await guard.check("http://receiver.example.com/")).toEqual({
      ok: false,
      reason:
        "must be https, and whether it resolves into the allowed private ranges DNS did not say (ETIMEOUT)",
    });
  });

  test("a name has its addresses of one family soon where DNS never answers for the other", async () => {
    await using dns = await startDns((type) => (type === A ? "192.0.2.7" : null));
    // Five seconds are the longest that the resolver waits in one of its tries.
    const resolve = makeSystemResolver({
      timeoutMs: 5_000,
      tries: 4,
      servers: () => [`127.0.0.1:${dns.port}`],
    });
    const startedMs = performance.now();
    expect(await resolve("receiver.example.com")).toEqual(["192.0.2.7"]);
    expect(performance.now() - startedMs).toBeLessThan(10_000);
  });
});
