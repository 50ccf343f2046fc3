import { readdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { makeRelayProcess, type RelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

/** The least that a relay starts with. */
const OPEN_FILES = 256;
const DESTINATIONS = 60;
const HUNG_EVENTS = 8;
const EVENTS = 5;

/** Takes requests and never answers them. */
const hung = createServer(() => undefined);
let relay: RelayProcess;
let well: Receiver;

beforeAll(async () => {
  await new Promise<void>((resolve) => hung.listen(0, "127.0.0.1", resolve));
  well = await startReceiver();
  relay = await makeRelayProcess({ RELAY_DELIVERY_TIMEOUT_MS: "120000" }, [], {
    openFiles: OPEN_FILES,
  });
  await relay.start();
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await well[Symbol.asyncDispose]();
  hung.closeAllConnections();
  hung.close();
});

async function makeEndpoint(name: string, receiverUrls: readonly string[]): Promise<string> {
  const project = await relay.client.projects.create({ name });
  const { id, url } = await relay.client.endpoints.create(project.id, {
    name,
    provider: "custom",
    verification_method: "none",
  });
  for (const receiver_url of receiverUrls)
    await relay.client.destinations.create(id, { name, receiver_url });
  return url;
}

async function post(url: string): Promise<void> {
  const answer = await request(url, { method: "POST", body: "{}", reset: true });
  await answer.body.dump();
  expect(answer.statusCode).toBe(200);
}

it("deliveries that hang never use up the file descriptors: the API had none left to ask the event store, and other deliveries failed", async () => {
  const { port } = hung.address() as AddressInfo;
  const hanging = await makeEndpoint(
    "Hung",
    Array.from({ length: DESTINATIONS }, (_, index) => `http://127.0.0.1:${port}/${index}`),
  );
  const other = await makeEndpoint("Well", [`${well.url}/`]);
  // Destinations that have not answered yet share half of the places.
  await post(other);
  await waitFor("the first delivery", () => well.requests.length === 1, 20_000);
  const listed = async () => (await relay.client.events.search({})).data.length;
  await waitFor("the first event to be listed", async () => (await listed()) > 0, 20_000);
  for (let count = 0; count < HUNG_EVENTS; count += 1) await post(hanging);
  for (let count = 2; count <= EVENTS; count += 1) {
    await post(other);
    await waitFor("the delivery", () => well.requests.length >= count, 20_000);
    expect(await listed()).toBeGreaterThan(0);
    expect(readdirSync(`/proc/${relay.pid()}/fd`).length).toBeLessThan(OPEN_FILES);
  }
  expect(well.requests).toHaveLength(EVENTS);
  await waitFor(
    "the recording",
    async () =>
      (await relay.client.events.facets({ attempt_status: "delivered" })).total_events === EVENTS,
    20_000,
  );
}, 120_000);
