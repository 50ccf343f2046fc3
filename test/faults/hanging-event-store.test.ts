import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeRelayProcess, runRelay } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

/** Starts a server that takes requests and answers none, or only the one for its version. */
async function startHangingServer({ tellsVersion = false } = {}): Promise<{
  readonly server: Server;
  readonly url: string;
}> {
  const server = createServer((request, response) => {
    void text(request).then((statement) => {
      if (!statement.startsWith("SELECT version")) server.emit("hangs");
      else if (tellsVersion) response.end('{"version":"26.1"}\n');
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/relay` };
}

it("regression: what starts while ClickHouse hangs delivers, serves the configuration and says what it waits for: it did nothing for a minute, and /readyz named nobody", async () => {
  const { server, url } = await startHangingServer();
  await using receiver = await startReceiver();
  await using relay = await makeRelayProcess({ CLICKHOUSE_URL: url });
  try {
    const started = relay.start();
    const partsOf = async (): Promise<
      readonly { readonly name: string; readonly state: string }[]
    > => {
      const answer = await fetch(`http://127.0.0.1:${relay.ports.ops}/readyz`);
      expect(answer.status).toBe(503);
      return ((await answer.json()) as { parts: { name: string; state: string }[] }).parts;
    };
    await waitFor("the part that is waited for", () =>
      partsOf().then(
        (parts) => parts.some(({ name, state }) => name === "event-schema" && state === "starting"),
        () => false,
      ),
    );
    await started;
    expect(relay.output()).toMatch(
      /"waitsFor":\[{"part":"event-schema","err":"ClickHouse at [^"]+ no answer within 5 s/,
    );
    expect(await partsOf()).toContainEqual(
      expect.objectContaining({ name: "event-schema", state: "restarting" }),
    );

    const endpoint = await createGithubEndpoint(relay.client, "Hanging");
    await relay.client.destinations.create(endpoint.id, {
      name: "Ours",
      receiver_url: receiver.url,
    });
    expect((await postGithubWebhook(endpoint.url, "{}")).status).toBe(200);
    await waitFor("the delivery", () => receiver.requests.length === 1);
    expect(await relay.kill("SIGTERM")).toBe(0);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}, 120_000);

it("regression: `relay migrate` told to stop while ClickHouse hangs ends: it waited for the minute that a statement may take", async () => {
  const { server, url } = await startHangingServer({ tellsVersion: true });
  const dataDir = await mkdtemp(join(tmpdir(), "relay-migrate-"));
  try {
    expect(
      (await runRelay(["keys", "create", "--org", "ours"], { RELAY_DATA_DIR: dataDir })).code,
    ).toBe(0);
    const asked = once(server, "hangs");
    const child = spawn(process.execPath, ["bin/relay.js", "migrate"], {
      env: { PATH: process.env["PATH"] ?? "", RELAY_DATA_DIR: dataDir, CLICKHOUSE_URL: url },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const ended = once(child, "close");
    await asked;
    child.kill("SIGTERM");
    const late = new Promise((resolve) => setTimeout(resolve, 30_000, "late").unref());
    expect(await Promise.race([ended.then(([code]) => code as number), late])).toBe(1);
    expect(stderr).toBe("relay: stopped before it was done: run it again\n");
  } finally {
    server.closeAllConnections();
    server.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}, 120_000);
