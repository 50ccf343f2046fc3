import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { makeSeededRandom } from "../faults/harness/random.ts";
import { startTcpProxy } from "../faults/harness/tcp-proxy.ts";
import { makeCheckedClient } from "../support/checked-client.ts";
import { makeRelayProcess, runRelay } from "../support/relay-process.ts";
import { startPostgres, type TestPostgresServer } from "../support/stores/postgres.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { waitFor } from "../support/wait-for.ts";

const hasIPv6 = networkInterfaces()["lo"]?.some(({ address }) => address === "::1") === true;
const NO_KEY_GIVEN = { RELAY_BOOTSTRAP_API_KEY: "" };

const postgres: TestPostgresServer | Error = await startPostgres().catch((error: Error) => error);
afterAll(async () => {
  if (!(postgres instanceof Error)) await postgres[Symbol.asyncDispose]();
});

describe("relay start", () => {
  it("tells that its first key is revoked and goes on: it printed the key, then a stack at every start", async () => {
    await using relay = await makeRelayProcess(NO_KEY_GIVEN);
    await relay.start();
    const file = join(relay.dataDir, "first-api-key");
    const key = (await readFile(file, "utf8")).trim();
    // A new relay holds nothing.
    const baseUrl = `http://127.0.0.1:${relay.ports.api}`;
    const client = makeCheckedClient({ baseUrl, apiKey: key });
    expect(await client.projects.list()).toMatchObject({ data: [], pagination: { total: 0 } });
    await waitFor("the curl lines", () => relay.output().includes("sleep 1; curl"));
    const revoked = await runRelay(["keys", "revoke", key, "--org", "default"], relay.env);
    expect(revoked.stdout).toContain("is revoked");
    expect(await relay.kill("SIGTERM")).toBe(0);

    const before = relay.output().length;
    await relay.start();
    await waitFor("the revoked key", () => relay.output().includes("is revoked", before));
    const printed = () => relay.output().slice(before);
    expect(printed()).toContain(
      `the one in ${file} is revoked: make another with relay keys create --org default`,
    );
    expect(await relay.kill("SIGTERM")).toBe(0);
    expect(printed()).toContain('"relay.stopped"');
    expect(printed()).not.toContain(key);
    expect(printed()).not.toContain("ApiError");
  }, 120_000);

  it("stops what it started when its first key cannot be made sure of: it served on without signal handlers", async () => {
    await using relay = await makeRelayProcess();
    await relay.start();
    expect(await relay.kill("SIGTERM")).toBe(0);
    const { code, stdout, stderr } = await runRelay(["start"], {
      ...relay.env,
      RELAY_BOOTSTRAP_ORG: "another",
    });
    expect(stderr).toMatch(/^relay: RELAY_BOOTSTRAP_API_KEY belongs to another organization.*\n$/);
    expect(stdout).not.toContain("relay.ready");
    expect(code).toBe(2);
  }, 120_000);

  it.skipIf(postgres instanceof Error && skipOrFail("PostgreSQL", postgres))(
    "waits for PostgreSQL, then is ready and makes its bootstrap key: it called itself ready at once, and the key was unknown until the next start",
    async () => {
      const { hostname: host, port } = new URL((postgres as TestPostgresServer).url);
      await using proxy = await startTcpProxy({
        target: { host, port: Number(port) },
        random: makeSeededRandom(1),
      });
      proxy.setMode("cut");
      const url = new URL((postgres as TestPostgresServer).url);
      url.port = String(proxy.port);
      await using relay = await makeRelayProcess({
        DATABASE_URL: url.href,
        RELAY_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64"),
      });
      await relay.start();
      expect(relay.output()).toContain("relay.bootstrap_key_not_checked");
      expect(relay.output()).toMatch(
        /"waitsFor":\[{"part":"configuration","err":"PostgreSQL at [^"]+"}.*"relay.waiting"/,
      );
      expect(relay.output()).not.toContain("relay.ready");
      const readyz = `http://127.0.0.1:${relay.ports.ops}/readyz`;
      expect((await fetch(readyz)).status).toBe(503);
      const metrics = `http://127.0.0.1:${relay.ports.ops}/metrics`;
      const isPushed = async (): Promise<boolean> =>
        (await (await fetch(metrics)).text()).includes("\nrelay_config_feed_up 1\n");
      expect(await isPushed()).toBe(false);
      proxy.setMode("pass");
      await waitFor("all parts", () => relay.output().includes('"relay.ready"'), 30_000);
      expect((await fetch(readyz)).status).toBe(200);
      await waitFor("the feed", isPushed);
      await waitFor(
        "the key",
        () =>
          relay.client.projects.list().then(
            () => true,
            () => false,
          ),
        30_000,
      );
      // When the store is away again, the relay stays ready, and only this shows it.
      proxy.setMode("cut");
      await waitFor("the feed's end", async () => !(await isPushed()));
      expect((await fetch(readyz)).status).toBe(200);
      expect(await relay.kill("SIGTERM")).toBe(0);
    },
    120_000,
  );

  it.skipIf(postgres instanceof Error && skipOrFail("PostgreSQL", postgres))(
    "regression: listens on a shared port once it knows the endpoints: a share of the connections went to one that could only answer 503, though others knew them",
    async () => {
      const url = new URL((postgres as TestPostgresServer).url);
      await using proxy = await startTcpProxy({
        target: { host: url.hostname, port: Number(url.port) },
        random: makeSeededRandom(1),
      });
      proxy.setMode("cut");
      url.port = String(proxy.port);
      await using relay = await makeRelayProcess({
        DATABASE_URL: url.href,
        RELAY_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64"),
        RELAY_INGEST_SHARE_PORT: "true",
      });
      await relay.start();
      const ask = () =>
        fetch(`http://127.0.0.1:${relay.ports.ingest}/in/unknown`).then(
          ({ status }) => status,
          () => "refused",
        );
      expect(await ask()).toBe("refused");
      expect(relay.output()).toMatch(/"part":"ingest","err":"listens on the shared port once/);
      expect(relay.output()).toContain('"part.failed"');
      // Nothing is wrong with the program.
      expect(relay.output()).not.toContain('"stack"');
      proxy.setMode("pass");
      await waitFor("all parts", () => relay.output().includes('"relay.ready"'), 30_000);
      expect(await ask()).toBe(404);
      expect(await relay.kill("SIGTERM")).toBe(0);
    },
    120_000,
  );

  it("told to stop while it starts ends at the next step: it started everything first, and made a key", async () => {
    await using relay = await makeRelayProcess();
    const started = relay.start().catch((error: Error) => error.message);
    await waitFor("the first line", () => relay.output().includes("relay.starting"));
    expect(await relay.kill("SIGTERM")).toBe(0);
    expect(await started).toContain("ended (0) before it was ready");
    // Which takes seconds: without a line at once, the signal seems to be lost.
    expect(relay.output()).toMatch(/"relay\.stopping"[^]*"relay\.stopped"/);
  }, 120_000);

  it.skipIf(process.platform !== "linux")(
    "ends in order on Ctrl-C while its ClickHouse starts: the terminal ended that first, and the start had failed",
    async () => {
      const dataDir = await mkdtemp(join(tmpdir(), "relay-ctrl-c-"));
      const program = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));
      // A process group of its own, as a shell makes one for each command.
      const relay = spawn(process.execPath, [program, "start", "--roles", "api"], {
        env: { RELAY_DATA_DIR: dataDir, RELAY_API_PORT: "0", RELAY_OPS_PORT: "0" },
        stdio: ["ignore", "pipe", "pipe"],
        detached: true,
      });
      let printed = "";
      const collect = (text: string): void => void (printed += text);
      relay.stdout.setEncoding("utf8").on("data", collect);
      relay.stderr.setEncoding("utf8").on("data", collect);
      const ended = once(relay, "close");
      while (!(await commandsOfChildren(relay.pid!)).includes("chdb-worker")) await delay(2);
      process.kill(-relay.pid!, "SIGINT");
      expect(await ended, printed).toEqual([0, null]);
      expect(printed).toContain('"ended":"ended"');
      expect(printed).toContain('"roles":["api"]');
      expect(printed).not.toContain("clickhouse.embedded.ended");
      expect(printed).not.toContain("relay.start_broken_off");
      await rm(dataDir, { recursive: true });
    },
  );

  it("told to stop while a store hangs in its start ends within its 29 s: it went on for as long as the store", async () => {
    const asked: string[] = [];
    // Answers the first question, for which it has seconds, and hangs in the next ones.
    const silent = createServer((request, response) => {
      void text(request).then((statement) => {
        asked.push(statement);
        if (statement.startsWith("SELECT version")) response.end('{"version":"26.1"}\n');
      });
    });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    await using relay = await makeRelayProcess({
      CLICKHOUSE_URL: `http://127.0.0.1:${port}/relay`,
    });
    const started = relay.start().catch(() => "ended");
    await waitFor("a statement that is not answered", () => asked.length > 1);
    expect(await relay.kill("SIGTERM")).toBe(1);
    expect(relay.output()).toContain('"ended":"late"');
    expect(await started).toBe("ended");
    silent.closeAllConnections();
    silent.close();
  }, 120_000);

  it("tells of no empty partition that it took: forty-eight of them stood before the first key", async () => {
    await using relay = await makeRelayProcess({ ...NO_KEY_GIVEN, LOG_LEVEL: "info" });
    await relay.start();
    await waitFor("the curl lines", () => relay.output().includes("sleep 1; curl"));
    expect(relay.output()).toContain("relay.ready");
    expect(relay.output()).not.toContain("delivery.recovered");
  });

  it("warns of embedded stores without the delivery role, and prints the key also without ingest: it took webhooks that nobody could record, and showed how to list them", async () => {
    for (const roles of ["api,ingest", "api"]) {
      await using relay = await makeRelayProcess({ ...NO_KEY_GIVEN, RELAY_ROLES: roles });
      await relay.start();
      await waitFor("the key", () => /^API key +rk_/m.test(relay.output()));
      expect(relay.output()).toContain("relay.nobody_delivers");
      expect(await relay.kill("SIGTERM")).toBe(0);
      expect(relay.output()).not.toContain("sleep 1; curl");
    }
  }, 120_000);

  it("asks its own API where it listens: it asked localhost whatever RELAY_API_HOST said", async () => {
    await using relay = await makeRelayProcess({ ...NO_KEY_GIVEN, RELAY_API_HOST: "127.0.0.2" });
    await relay.start();
    await waitFor("the curl lines", () => relay.output().includes("sleep 1; curl"));
    expect(relay.output()).toContain(`Management API  http://127.0.0.2:${relay.ports.api} `);
    expect(await relay.kill("SIGTERM")).toBe(0);
  });

  it.skipIf(!hasIPv6)(
    "goes on and stops in order without its curl lines: failing to make them ended the signal handling",
    async () => {
      // One can listen on this address, but no URL can hold it.
      await using relay = await makeRelayProcess({ ...NO_KEY_GIVEN, RELAY_API_HOST: "::1%lo" });
      await relay.start();
      await waitFor("the warning", () => relay.output().includes("relay.first_steps_not_shown"));
      expect(await relay.kill("SIGTERM")).toBe(0);
      expect(relay.output()).toContain('"relay.stopped"');
    },
  );
});

it("regression: npm start hands a signal on to the relay: npm ended, and left a relay that kept its ports and its data directory", async () => {
  const root = new URL("../../", import.meta.url);
  const { scripts } = JSON.parse(await readFile(new URL("package.json", root), "utf8")) as {
    scripts: { start: string };
  };
  // As npm runs it, which signals the shell; the build is left out, as it was done before the tests.
  const command = scripts.start.replace("node scripts/build.js", "true");
  await using relay = await makeRelayProcess();
  const shell = spawn("sh", ["-c", command], { cwd: root, env: relay.env });
  let output = "";
  for (const stream of [shell.stdout, shell.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const ended = once(shell, "close");
  await waitFor("the relay", () => output.includes("relay.ready"));
  shell.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
  expect(output).toContain('"relay.stopped"');
}, 120_000);

it("the section that the program names on another version of Node is in the README", async () => {
  const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), "utf8");
  const section = /see "([^"]+)" in README\.md/.exec(await read("bin/relay.js"))?.[1];
  expect(await read("README.md")).toContain(`\n## ${section}\n`);
});

async function commandsOfChildren(pid: number): Promise<string> {
  const read = (other: string, file: string): Promise<string> =>
    readFile(`/proc/${other}/${file}`, "utf8").catch(() => "");
  const all = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const commands = all.map(async (other) => {
    // proc(5): pid (name) state ppid; the name may hold anything.
    const [, parent] = /.*\) \S+ (\d+)/s.exec(await read(other, "stat")) ?? [];
    return Number(parent) === pid ? read(other, "cmdline") : "";
  });
  return (await Promise.all(commands)).join("\n");
}
