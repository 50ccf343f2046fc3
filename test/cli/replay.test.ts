import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { replay } from "../../src/cli/replay.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { makeRelayProcess, runRelay, type RelayProcess } from "../support/relay-process.ts";
import { freePorts } from "../support/stores/free-port.ts";
import { waitFor } from "../support/wait-for.ts";

describe("relay replay", () => {
  let relay: RelayProcess;
  let receiver: Receiver;
  let isDown = true;
  let destination = "";
  let url = "";

  beforeAll(async () => {
    receiver = await startReceiver(({ path }) => (isDown || path === "/dead" ? 500 : 200));
    relay = await makeRelayProcess();
    await relay.start();
    const project = await relay.client.projects.create({ name: "Replay" });
    const endpoint = await relay.client.endpoints.create(project.id, {
      name: "Replay",
      provider: "custom",
      verification_method: "none",
    });
    url = endpoint.url;
    const make = async (path: string): Promise<string> => {
      const body = { name: path, receiver_url: receiver.url + path, retry_max_attempts: 0 };
      return (await relay.client.destinations.create(endpoint.id, body)).id;
    };
    destination = await make("/hook");
    await make("/dead");
  }, 60_000);
  afterAll(async () => {
    await relay[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });

  const send = async (body: string): Promise<string> => {
    const answer = await fetch(url, { method: "POST", body });
    return ((await answer.json()) as { data: { event_id: string } }).data.event_id;
  };
  const statusesOf = async (eventId: string): Promise<string[]> =>
    (await relay.client.events.attempts(eventId))
      .filter((attempt) => attempt.destination_id === destination)
      .map(({ status }) => status);
  const run = (...args: string[]) => runRelay(["replay", ...args], relay.env);

  it("delivers again what died at the destination, oldest first, and nothing twice once it was delivered", async () => {
    const died: string[] = [];
    for (const body of ["one", "two", "three"]) died.push(await send(body));
    for (const id of died)
      await waitFor("a dead delivery", async () => (await statusesOf(id)).includes("dead"));
    isDown = false;
    const delivered = await send("four");
    await waitFor("a delivery", async () => (await statusesOf(delivered)).includes("delivered"));

    const planned = await run("--destination", destination, "--dry-run");
    expect(planned.stdout.trim().split("\n")).toEqual(died);
    expect(planned.stderr).toBe(
      `${destination}: 3 dead deliveries would be replayed, 0 were delivered or are tried again since\n`,
    );
    expect(await statusesOf(died[0]!)).toEqual(["dead"]);

    const { received_at: receivedAt } = await relay.client.events.get(died[1]!);
    const later = await run("--destination", destination, "--from", receivedAt);
    expect({ code: later.code, ids: later.stdout.trim().split("\n") }).toEqual({
      code: 0,
      ids: died.slice(1),
    });
    for (const id of died.slice(1))
      await waitFor("a replay", async () => (await statusesOf(id)).includes("delivered"));

    const all = await run("--destination", destination);
    expect(all.stdout.trim().split("\n")).toEqual([died[0]]);
    expect(all.stderr).toContain("1 dead deliveries enqueued again, 2 were delivered");
    await waitFor("a replay", async () => (await statusesOf(died[0]!)).includes("delivered"));
    expect(await statusesOf(died[0]!)).toEqual(["dead", "delivered"]);
    const replays = receiver.requests.filter(
      ({ headers }) => headers["x-relay-trigger"] === "replay",
    );
    expect(replays.map(({ path }) => path)).toEqual(["/hook", "/hook", "/hook"]);
  }, 60_000);

  it("passes over what waits for the rate limit since a replay: run again, it enqueued that twice", async () => {
    isDown = true;
    const died = [await send("five"), await send("six")];
    for (const id of died)
      await waitFor("a dead delivery", async () => (await statusesOf(id)).includes("dead"));
    isDown = false;
    const limit = { rate_limit_max: 1, rate_limit_window: "hour" } as const;
    await relay.client.destinations.update(destination, limit);
    const { received_at: from } = await relay.client.events.get(died[0]!);
    const args = ["--destination", destination, "--from", from];
    expect((await run(...args)).stdout.trim().split("\n")).toEqual(died);
    await waitFor("a replay that is put off", async () =>
      (await Promise.all(died.map(statusesOf))).flat().includes("rate_limited"),
    );
    await waitFor("a replay", async () =>
      (await Promise.all(died.map(statusesOf))).flat().includes("delivered"),
    );
    expect(await run(...args)).toMatchObject({
      stdout: "",
      stderr: `${destination}: 0 dead deliveries enqueued again, 2 were delivered or are tried again since\n`,
    });
    await relay.client.destinations.update(destination, {
      rate_limit_max: null,
      rate_limit_window: null,
    });
    await relay.client.destinations.pause(destination);
    expect((await run(...args)).stderr).toContain(
      `${destination} is paused: what is enqueued waits until it is resumed`,
    );
  }, 60_000);

  it("says in one line what is wrong: an unknown destination, a wrong key or time, no key, nobody there; of times the wrong way round it said that nothing had died", async () => {
    const dir = await mkdtemp(join(tmpdir(), "relay-replay-"));
    const keyFile = join(dir, "key");
    await writeFile(keyFile, "rk_unknown0_0123456789abcdefghijklmnop\n");
    const twoLines = join(dir, "two-lines");
    await writeFile(twoLines, "rk_twolines_0123456789abcdefghijklmnop\nkey_1 for organization\n");
    const [port = 0] = await freePorts(1);
    const times = ["2026-11-23T09:00:00Z", "2026-11-24T09:00:00Z"] as const;
    try {
      for (const { args, env = relay.env, code, says } of [
        { args: ["--destination", "dst_01HZZZZZZZZZZZZZZZZZZZZZZZ"], code: 1, says: /^relay: .+$/ },
        { args: ["--destination", destination, "--key-file", keyFile], code: 1, says: /key/ },
        {
          args: ["--destination", destination, "--key-file", twoLines],
          code: 2,
          says: /two-lines holds no API key, or more than one/,
        },
        {
          args: ["--destination", destination, "--from", "yesterday"],
          code: 2,
          says: /^relay: --from must be a time with its zone, such as/,
        },
        {
          args: ["--destination", destination, "--to", "2026-02-30T00:00:00Z"],
          code: 2,
          says: /^relay: --to must be a time with its zone, such as/,
        },
        {
          args: ["--destination", destination, "--from", times[1], "--to", times[0]],
          code: 2,
          says: /^relay: --from must be earlier than --to \(default: now\)$/,
        },
        {
          args: ["--destination", destination, "--from", "9999-01-01T00:00:00Z"],
          code: 2,
          says: /^relay: --from must be earlier than --to \(default: now\)$/,
        },
        {
          args: ["--destination", destination],
          env: { RELAY_DATA_DIR: dir },
          code: 2,
          says: /first-api-key \(ENOENT\): name a file that holds one by --key-file/,
        },
        {
          args: ["--destination", destination, "--url", "localhost"],
          code: 2,
          says: /--url must be the management API's/,
        },
        {
          args: ["--destination", destination, "--url", "localhost:8080"],
          code: 2,
          says: /--url must be the management API's/,
        },
        {
          args: ["--destination", destination, "--url", `http://127.0.0.1:${port}`],
          code: 1,
          says: /does not answer \(ECONNREFUSED\): is it running\?/,
        },
        { args: [], code: 2, says: /--destination/ },
        // As from a variable of the shell that is not set: it said that there is no such path.
        { args: ["--destination", ""], code: 2, says: /^relay: --destination must be the id of/ },
      ] as const) {
        const ended = await runRelay(["replay", ...args], env);
        expect({ args, code: ended.code, stdout: ended.stdout }).toEqual({
          args,
          code,
          stdout: "",
        });
        expect(ended.stderr.trim().split("\n")).toEqual([expect.stringMatching(says)]);
      }
    } finally {
      await rm(dir, { recursive: true });
    }
  }, 60_000);

  it("asks a busy relay again, and tells what is done when it stays busy or is interrupted", async () => {
    const stop = new AbortController();
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    let stopAt = "";
    let retryAfter = "0";
    const asked: string[] = [];
    const [atOnce, all] = [32, 34];
    /** How many answers still say busy, by the last segment of the path: 429 to a client that asks too often, else 503. */
    const busy = new Map([
      ["dst_1", 1],
      ["events", 1],
    ]);
    const server = createServer((request, response) => {
      const [path = ""] = (request.url ?? "").split("?");
      const name = path.split("/").at(-1)!;
      asked.push(`${request.method} ${path}`);
      if (path === stopAt) stop.abort();
      const left = busy.get(name) ?? 0;
      busy.set(name, left - 1);
      const pagination = { page: 1, limit: 100, total: all, total_pages: 1, has_next: false };
      const dead = [{ destination_id: "dst_1", status: "dead" }];
      const events = Array.from({ length: all }, (_, index) => ({ id: `evt_${all - index}` }));
      const data =
        { events, attempts: dead, dst_1: { id: "dst_1", status: "disabled" } }[name] ?? {};
      const busyStatus = name === "events" ? 429 : 503;
      response.writeHead(left > 0 ? busyStatus : 200, { "retry-after": retryAfter });
      response.end(
        JSON.stringify(
          left > 0 ? { error: { code: "unavailable", message: "away" } } : { data, pagination },
        ),
      );
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const replayed = async (signal: AbortSignal) => {
      const [stdout, stderr] = [new PassThrough(), new PassThrough()];
      const env = { RELAY_BOOTSTRAP_API_KEY: "rk_testtest_0123456789abcdefghijklmnop" };
      const io = { argv: [], env, signal, stdin: new PassThrough(), stdout, stderr };
      const code = await replay(io, { destination: "dst_1", url }).catch((error: Error) => error);
      const read = (stream: PassThrough): string => String(stream.read() ?? "");
      return { code, stdout: read(stdout), stderr: read(stderr) };
    };
    try {
      busy.set("replay", 10 * atOnce);
      const gaveUp = await replayed(new AbortController().signal);
      expect(gaveUp).toEqual({
        code: expect.objectContaining({ status: 503, message: "away" }),
        stdout: "",
        stderr:
          "relay: dst_1 is disabled: what is enqueued waits until it is resumed\n" +
          "dst_1: 0 dead deliveries enqueued again, 0 were delivered or are tried again since\n",
      });
      expect(asked.filter((one) => one === "GET /destinations/dst_1")).toHaveLength(2);
      expect(asked.filter((one) => one === "GET /events")).toHaveLength(2);
      expect(
        asked.filter((one) => one === "POST /events/evt_1/destinations/dst_1/replay"),
      ).toHaveLength(10);

      busy.set("replay", 0);
      stopAt = "/events/evt_2/attempts";
      const interrupted = await replayed(stop.signal);
      expect(interrupted).toEqual({
        code: 1,
        stdout: Array.from({ length: atOnce }, (_, index) => `evt_${index + 1}\n`).join(""),
        stderr:
          "relay: dst_1 is disabled: what is enqueued waits until it is resumed\n" +
          "dst_1: 32 dead deliveries enqueued again, 0 were delivered or are tried again since\n" +
          "relay: interrupted; run it again for the rest once these have ended\n",
      });

      busy.set("replay", atOnce);
      retryAfter = "2";
      stopAt = "";
      const askedAtMs = performance.now();
      expect(await replayed(new AbortController().signal)).toMatchObject({ code: 0 });
      expect(performance.now() - askedAtMs).toBeGreaterThan(1_900);
      // Regression: Node warned of a memory leak when more than ten waited for the relay.
      expect(warnings).toEqual([]);
    } finally {
      process.off("warning", onWarning);
      server.close();
    }
  });

  it("interrupted while the relay is busy, ends with 1", async () => {
    const busy = createServer((_, response) => {
      response.writeHead(503, { "retry-after": "60" });
      response.end('{"error":{"code":"unavailable","message":"away"}}');
    });
    busy.listen(0, "127.0.0.1");
    await once(busy, "listening");
    const url = `http://127.0.0.1:${(busy.address() as AddressInfo).port}`;
    const asked = once(busy, "request");
    const child = spawn(
      process.execPath,
      ["bin/relay.js", "replay", "--destination", "dst_1", "--url", url],
      { env: relay.env, stdio: ["ignore", "inherit", "pipe"] },
    );
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const ended = once(child, "close");
    await asked;
    // It may still be reading the answer.
    await delay(500);
    child.kill("SIGINT");
    expect(await ended).toEqual([1, null]);
    expect(stderr).toBe("relay: interrupted; run it again for the rest once these have ended\n");
    busy.close();
  });

  it("enqueues each event once though pages move while more deliveries end dead: one that two pages held was enqueued twice", async () => {
    const replays: string[] = [];
    /** A newer event that died between the two requests has moved evt_2 to the second page. */
    const pages = [
      ["evt_3", "evt_2"],
      ["evt_2", "evt_1"],
    ] as const;
    const server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost");
      const page = Number(searchParams.get("page") ?? 1);
      const events = (pages[page - 1] ?? []).map((id) => ({ id }));
      const dead = [{ destination_id: "dst_1", status: "dead" }];
      const data = { events, attempts: dead }[pathname.split("/").at(-1)!] ?? {};
      if (request.method === "POST") replays.push(pathname.split("/")[2]!);
      response.end(JSON.stringify({ data, pagination: { has_next: page < pages.length } }));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const stdout = new PassThrough();
      const io = {
        argv: [],
        env: { RELAY_BOOTSTRAP_API_KEY: "rk_testtest_0123456789abcdefghijklmnop" },
        signal: new AbortController().signal,
        stdin: new PassThrough(),
        stdout,
        stderr: new PassThrough(),
      };
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      expect(await replay(io, { destination: "dst_1", url })).toBe(0);
      expect(String(stdout.read())).toBe("evt_1\nevt_2\nevt_3\n");
      expect(replays.toSorted()).toEqual(["evt_1", "evt_2", "evt_3"]);
    } finally {
      server.close();
    }
  });

  it("regression: goes on where events reach the end of their retention while it runs: the first one ended it, as if the destination were unknown", async () => {
    /** How often each event is still found. */
    const foundLeft = new Map([
      ["evt_1", 0],
      ["evt_2", 1],
      ["evt_3", Infinity],
    ]);
    let isDeleted = false;
    const server = createServer((request, response) => {
      const [, , eventId = ""] = (request.url ?? "").split("/");
      const name = (request.url ?? "").split("?")[0]!.split("/").at(-1)!;
      const left = foundLeft.get(eventId) ?? Infinity;
      foundLeft.set(eventId, left - 1);
      const events = ["evt_3", "evt_2", "evt_1"].map((id) => ({ id }));
      const dead = [{ destination_id: "dst_1", status: "dead" }];
      const data = { events, attempts: dead, dst_1: { id: "dst_1", status: "active" } }[name] ?? {};
      const isGone = left <= 0 || (isDeleted && request.method === "POST");
      response.statusCode = isGone ? 404 : 200;
      const error = { code: "not_found", message: "gone" };
      response.end(JSON.stringify(isGone ? { error } : { data, pagination: { has_next: false } }));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const replayed = async () => {
      const [stdout, stderr] = [new PassThrough(), new PassThrough()];
      const env = { RELAY_BOOTSTRAP_API_KEY: "rk_testtest_0123456789abcdefghijklmnop" };
      const { signal } = new AbortController();
      const io = { argv: [], env, signal, stdin: new PassThrough(), stdout, stderr };
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const code = await replay(io, { destination: "dst_1", url }).catch((error: Error) => error);
      return { code, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
    };
    try {
      expect(await replayed()).toEqual({
        code: 0,
        stdout: "evt_3\n",
        stderr:
          "dst_1: 1 dead deliveries enqueued again, 0 were delivered or are tried again since, 2 are past the retention by now\n",
      });
      // One of a destination that was deleted meanwhile is still found.
      isDeleted = true;
      expect(await replayed()).toMatchObject({
        code: expect.objectContaining({ status: 404, message: "gone" }),
        stdout: "",
      });
    } finally {
      server.close();
    }
  });
});
