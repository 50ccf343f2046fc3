import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { migrateClickHouse } from "../../src/adapters/clickhouse/migrate.ts";
import { startTestClickHouse } from "../support/clickhouse.ts";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { temporaryDirectory } from "../support/postgres.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeRelayProcess, runRelay } from "../support/relay-process.ts";
import { startPostgres } from "../support/stores/postgres.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { waitFor } from "../support/wait-for.ts";

const SCRIPT = fileURLToPath(new URL("../../deploy/move-to-cluster.sh", import.meta.url));
const hasTools = ["psql", "curl"].every((tool) => spawnSync(tool, ["--version"]).status === 0);
const isMissing = !hasTools && skipOrFail("psql and curl", "they are not installed");

/** What the text form of rows has to escape, and bytes that are not UTF-8. */
const BODIES = ["{}", "a\tb\\n\n\r\n\"'\\N", "\0 \u2028 é"].map((text) => Buffer.from(text));
BODIES.push(Buffer.from([0xff, 0xfe, 0x00, 0x09, 0x0a, 0x5c]));

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(env: Record<string, string>, ...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(SCRIPT, args, { env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

/** Makes commands that note their arguments, each on a line, and the sizes of files among them, and then are what they are named for. */
async function noteArguments() {
  const dir = await mkdtemp(join(tmpdir(), "relay-noted-"));
  const file = join(dir, "arguments");
  const sizes = join(dir, "sizes");
  const path = process.env["PATH"] ?? "";
  for (const tool of ["psql", "curl"]) {
    const note = `printf '%s\\n' "$@" >>'${file}'; for last; do [ ! -f "$last" ] || wc -c <"$last" >>'${sizes}'; done`;
    const script = `#!/bin/sh\n${note}\nPATH='${path}' exec ${tool} "$@"\n`;
    await writeFile(join(dir, tool), script, { mode: 0o755 });
  }
  return {
    path: `${dir}:${path}`,
    read: () => readFile(file, "utf8"),
    readSizes: async () => (await readFile(sizes, "utf8")).trim().split("\n").map(Number),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true }),
  };
}

async function waitUntilDelivered(client: Client, eventId: string, times: number): Promise<void> {
  await waitFor("the delivery to be listed", async () => {
    const attempts = await client.events.attempts(eventId);
    return attempts.filter(({ status }) => status === "delivered").length === times;
  });
}

async function waitUntilListed(client: Client, events: number): Promise<void> {
  await waitFor("the events to be listed", async () => {
    const { total } = (await client.events.search()).pagination;
    return total === events;
  });
}

describe.skipIf(isMissing)("deploy/move-to-cluster.sh", () => {
  it("takes endpoints, keys, secrets and history along: the cluster takes webhooks at the same URLs, lists what was before it, and replays that", async () => {
    await using receiver = await startReceiver();
    await using postgres = await startPostgres();
    await using clickhouse = await startTestClickHouse();
    await using old = await makeRelayProcess();
    await old.start();
    const endpoint = await createGithubEndpoint(old.client, "Tab\there");
    const destination = await old.client.destinations.create(endpoint.id, {
      name: "back\\slash",
      receiver_url: `${receiver.url}/hook`,
    });
    const eventIds: string[] = [];
    for (const body of BODIES) {
      const { eventId } = await postGithubWebhook(endpoint.url, body);
      eventIds.push(eventId);
      await waitUntilDelivered(old.client, eventId, 1);
    }
    const forged = await postGithubWebhook(endpoint.url, Buffer.from("{}"), "another secret");
    expect(forged.status).toBe(401);
    await waitUntilListed(old.client, BODIES.length + 1);

    await using cluster = await makeRelayProcess({
      DATABASE_URL: postgres.url,
      CLICKHOUSE_URL: clickhouse.url,
      RELAY_ENCRYPTION_KEY: (await readFile(join(old.dataDir, "encryption.key"), "utf8")).trim(),
    });
    await using noted = await noteArguments();
    const move = (what: string) => run({ ...cluster.env, PATH: noted.path }, what, old.dataDir);
    expect(await move("configuration")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("run relay migrate first"),
    });
    expect((await runRelay(["migrate"], cluster.env)).code).toBe(0);
    expect(await move("configuration")).toEqual({
      code: 0,
      stdout: "endpoints: 1, destinations: 1 (those deleted are among them)\n",
      stderr: "",
    });
    await cluster.start();
    expect(await move("configuration")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("has a configuration already"),
    });
    const there = new URL(endpoint.url);
    there.port = String(cluster.ports.ingest);
    expect(await cluster.client.destinations.get(destination.id)).toEqual(
      await old.client.destinations.get(destination.id),
    );
    const taken = await postGithubWebhook(there.href, Buffer.from('{"first":true}'));
    expect(taken.status).toBe(200);
    await waitUntilDelivered(cluster.client, taken.eventId, 1);
    await waitUntilListed(cluster.client, 1);

    // What is copied twice counts once.
    for (let time = 0; time < 2; time += 1)
      expect(await move("history")).toMatchObject({ code: 0, stderr: "" });
    const { data, pagination } = await cluster.client.events.search();
    expect(pagination.total).toBe(BODIES.length + 2);
    expect(data[0]?.id).toBe(taken.eventId);
    expect(data.slice(1)).toEqual((await old.client.events.search()).data);
    for (const eventId of [...eventIds, forged.eventId])
      expect(await cluster.client.events.get(eventId)).toEqual(
        await old.client.events.get(eventId),
      );
    // Regression: the URLs of all stores, with their passwords, were arguments, which all users of a machine see.
    const given = await noted.read();
    expect(given).toContain("SELECT");
    expect(given).not.toMatch(/:\/\/(?!$)/m);
    for (const [index, eventId] of eventIds.entries()) {
      await cluster.client.events.replay(eventId);
      await waitUntilDelivered(cluster.client, eventId, 2);
      expect(receiver.requests.at(-1)?.body).toEqual(BODIES[index]);
    }
  }, 120_000);

  it("takes large events along in pieces, since the embedded store answers out of its memory: it refused ten minutes of them at once", async () => {
    await using clickhouse = await startTestClickHouse();
    await using old = await makeRelayProcess();
    await old.start();
    const endpoint = await createGithubEndpoint(old.client, "Large");
    const events = 5;
    for (let event = 0; event < events; event += 1)
      await postGithubWebhook(endpoint.url, Buffer.alloc(9_000_000, `line ${event}\n`));
    await waitUntilListed(old.client, events);
    await using noted = await noteArguments();
    await migrateClickHouse(clickhouse.client, { retentionDays: 30 });
    const env = { PATH: noted.path, CLICKHOUSE_URL: clickhouse.url };
    const ended = await run(env, "history", old.dataDir);
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).toContain(`events: ${events} rows`);
    expect(Math.max(...(await noted.readSizes()))).toBeLessThan(40_000_000);
  }, 120_000);

  it("says why the embedded store refuses to answer", async () => {
    const server = createServer((request, response) => {
      request.resume().once("end", () => {
        asked += 1;
        response
          .writeHead(asked === 1 ? 200 : 500)
          .end(asked === 1 ? "1" : "MEMORY_LIMIT_EXCEEDED");
      });
    });
    let asked = 0;
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/relay`;
    await using directory = await temporaryDirectory();
    await mkdir(join(directory.path, "run"));
    await writeFile(join(directory.path, "run", "clickhouse.json"), JSON.stringify({ url }));
    const env = { PATH: process.env["PATH"] ?? "", CLICKHOUSE_URL: url };
    const ended = await run(env, "history", directory.path);
    server.close();
    expect(ended.code).not.toBe(0);
    expect(ended.stderr).toContain("MEMORY_LIMIT_EXCEEDED");
  });

  it.each(["SIGHUP", "SIGTERM"] as const)(
    "leaves no file behind when %s ends it",
    async (signal) => {
      await using directory = await temporaryDirectory();
      const tools = join(directory.path, "tools");
      const files = join(directory.path, "files");
      const asked = join(directory.path, "asked");
      for (const dir of [tools, files]) await mkdir(dir);
      const psql = `#!/bin/sh\n: >'${asked}'\nexec sleep 60\n`;
      await writeFile(join(tools, "psql"), psql, { mode: 0o755 });
      const env = {
        PATH: `${tools}:${process.env["PATH"] ?? ""}`,
        TMPDIR: files,
        DATABASE_URL: "-",
      };
      const script = spawn(SCRIPT, ["configuration", "."], {
        env,
        detached: true,
        stdio: "ignore",
      });
      await waitFor("it to ask", async () => existsSync(asked));
      expect((await readdir(files)).length).toBeGreaterThan(0);
      process.kill(-(script.pid ?? 0), signal);
      await once(script, "exit");
      expect(await readdir(files)).toEqual([]);
    },
  );

  it.each([
    ["without a directory", ["history"], 2, "usage: "],
    ["with an unknown part", ["everything", "."], 2, "usage: "],
    ["where no relay runs (history)", ["history", "."], 1, "ClickHouse runs in ."],
    ["where no relay runs", ["configuration", "."], 1, "PostgreSQL runs in ."],
  ])("says what is wrong %s", async (_what, args, code, message) => {
    const urls = { DATABASE_URL: "postgres://127.0.0.1:1", CLICKHOUSE_URL: "http://127.0.0.1:1" };
    const ended = await run({ PATH: process.env["PATH"] ?? "", ...urls }, ...args);
    expect(ended).toMatchObject({ code, stderr: expect.stringContaining(message) });
  });
});
