import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  makeSystemResolver,
  type SystemResolverOptions,
} from "../../../src/adapters/undici/resolve-host.ts";
import { A, NO_SUCH_NAME, startDns } from "../../support/dns.ts";

type Dns = Awaited<ReturnType<typeof startDns>>;

let dir: string;
let resolverFile: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "relay-resolver-"));
  resolverFile = join(dir, "resolv.conf");
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Makes a resolver that asks the server that `dns` names at the time, and never the system of this machine. */
function resolverOf(dns: () => Dns, options: SystemResolverOptions = {}) {
  return makeSystemResolver({
    timeoutMs: 100,
    tries: 1,
    servers: () => [`127.0.0.1:${dns().port}`],
    resolverFile,
    askSystem: async () => [],
    ...options,
  });
}

const startDnsOf = (names: Readonly<Record<string, string | null>>) =>
  startDns((type, name) => (type === A ? (names[name] ?? NO_SUCH_NAME) : NO_SUCH_NAME));

describe("the system's DNS servers", () => {
  test("regression: servers that changed are asked at once: the relay asked those that it had started with until its restart", async () => {
    await using silent = await startDns(() => null);
    await using answering = await startDnsOf({ "receiver.example.com": "192.0.2.7" });
    let dns = silent;
    await writeFile(resolverFile, "nameserver 192.0.2.1\n");
    const resolve = resolverOf(() => dns);
    await expect(resolve("receiver.example.com")).rejects.toMatchObject({ code: "ETIMEOUT" });

    dns = answering;
    await writeFile(resolverFile, "nameserver 192.0.2.2\n");
    expect(await resolve("receiver.example.com")).toEqual(["192.0.2.7"]);
  });

  test("a question that is under way when they change has its answer", async () => {
    let release = (): void => {};
    const asked = new Promise<void>((resolve) => {
      release = resolve;
    });
    await using slow = await startDns((type) => {
      release();
      return type === A ? "192.0.2.7" : null;
    });
    await using other = await startDnsOf({ "other.example.com": "192.0.2.8" });
    let dns = slow;
    await writeFile(resolverFile, "nameserver 192.0.2.1\n");
    const resolve = resolverOf(() => dns);
    const early = resolve("receiver.example.com");
    await asked;

    dns = other;
    await writeFile(resolverFile, "nameserver 192.0.2.2\n");
    expect(await resolve("other.example.com")).toEqual(["192.0.2.8"]);
    expect(await early).toEqual(["192.0.2.7"]);
  });

  test("the last ones that are known are asked while the file that names them is away", async () => {
    await using dns = await startDnsOf({ "receiver.example.com": "192.0.2.7" });
    let reads = 0;
    await writeFile(resolverFile, "nameserver 192.0.2.1\n");
    const resolve = resolverOf(() => {
      reads += 1;
      return dns;
    });
    expect(await resolve("receiver.example.com")).toEqual(["192.0.2.7"]);
    await rm(resolverFile);
    expect(await resolve("receiver.example.com")).toEqual(["192.0.2.7"]);
    expect(reads).toBe(1);
  });
});

describe("a name that DNS does not know", () => {
  test("regression: the system is not asked for it if it is public: names that hang there held up every other lookup, those of the stores as well", async () => {
    await using dns = await startDnsOf({});
    const asked: string[] = [];
    const resolve = resolverOf(() => dns, {
      askSystem: async (host) => {
        asked.push(host);
        return ["192.0.2.9"];
      },
    });
    await expect(resolve("unknown.example.com")).rejects.toMatchObject({ code: "ENOTFOUND" });
    expect(await resolve("printer.local")).toEqual(["192.0.2.9"]);
    expect(await resolve("billing")).toEqual(["192.0.2.9"]);
    expect(asked).toEqual(["printer.local", "billing"]);
  });

  test("is looked for in the domains to search, in order, without the system", async () => {
    await using dns = await startDnsOf({
      "billing.team.svc.cluster.example": "192.0.2.7",
      "billing.team.cluster.example": "192.0.2.8",
    });
    await writeFile(
      resolverFile,
      "domain unused.example\nsearch team.example svc.cluster.example. cluster.example\n",
    );
    const resolve = resolverOf(() => dns);
    expect(await resolve("billing.team")).toEqual(["192.0.2.7"]);
  });

  test("may be known in a domain to search whose server does not answer: that it does not exist is not said", async () => {
    await using dns = await startDnsOf({});
    await using half = await startDns((_type, name) =>
      name.endsWith(".silent.example") ? null : NO_SUCH_NAME,
    );
    await writeFile(resolverFile, "search silent.example cluster.example\n");
    await expect(resolverOf(() => half)("billing.team")).rejects.toMatchObject({
      code: "ETIMEOUT",
    });
    await expect(resolverOf(() => dns)("billing.team")).rejects.toMatchObject({
      code: "ENOTFOUND",
    });
  });
});
