import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

it("a frozen event store delays neither an answer of the API nor the stop for long, and loses no event", async () => {
  await using relay = await makeRelayProcess();
  await relay.start();
  const endpoint = await createGithubEndpoint(relay.client, "Frozen");
  const credentials = await readFile(join(relay.dataDir, "run/clickhouse.json"), "utf8");
  const { pid } = JSON.parse(credentials) as { readonly pid: number };
  // While frozen, it would outlive a relay that is killed.
  using _thawed = { [Symbol.dispose]: () => signalIfAlive(pid, "SIGCONT") };
  process.kill(pid, "SIGSTOP");
  const { status, eventId } = await postGithubWebhook(endpoint.url, "{}");
  expect(status).toBe(200);

  // An answer that came too late for the client, or a stop that was given up, would have another code.
  await expect(relay.client.events.search()).rejects.toMatchObject({ status: 503 });
  expect(await relay.kill("SIGTERM")).toBe(0);

  await relay.start();
  await waitFor("the event", async () => {
    const { data } = await relay.client.events.search();
    return data.some(({ id }) => id === eventId);
  });
}, 120_000);

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
