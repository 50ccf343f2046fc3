import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { Endpoint } from "../../src/client/types.ts";
import { makeCheckedClient } from "../support/checked-client.ts";
import { startApiRelay, type ApiRelay } from "../support/api-relay.ts";
import { GITHUB_SECRET, postGithubWebhook } from "../support/github-webhook.ts";
import { startReceiver, type ReceivedRequest, type Receiver } from "../support/receiver.ts";
import { until } from "../support/wait-for.ts";

const ROUNDS = 10;
/** Far below the time to live of what is cached, after which every change takes effect, and far above what a push takes. */
const LIMIT_MS = 15_000;
/** How much later than the control an event may reach the changed destination. */
const SETTLED_MS = 200;
/** The pause between two webhooks of the light load. */
const LOAD_PAUSE_MS = 40;

/** Ten rounds of ten kinds of change, on one relay under load: a hundred changes, each effective when it is pushed. */
describe("changes of the configuration on a running relay under light load", () => {
  let relay: ApiRelay;
  let client: Client;
  let receiver: Receiver;
  let projectId: string;
  const load = new AbortController();
  let loaded: Promise<unknown> = Promise.resolve();
  const loadStatuses: number[] = [];
  const effectiveMs = new Map<string, number[]>();

  beforeAll(async () => {
    receiver = await startReceiver();
    relay = await startApiRelay();
    const { key } = await relay.newKey(["read", "write"], null);
    client = makeCheckedClient({ baseUrl: relay.apiUrl, apiKey: key });
    projectId = (await client.projects.create({ name: "Changes" })).id;
    const busy = await makeEndpoint();
    await makeDestination(busy.id, "/load");
    loaded = (async () => {
      while (!load.signal.aborted) {
        loadStatuses.push((await postGithubWebhook(busy.url, '{"load":1}')).status);
        await delay(LOAD_PAUSE_MS);
      }
    })();
  });
  afterAll(async () => {
    load.abort();
    await loaded;
    await relay[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });

  const makeEndpoint = () =>
    client.endpoints.create(projectId, {
      name: "Changing",
      provider: "github",
      secret: GITHUB_SECRET,
    });
  const makeDestination = (endpointId: string, path: string) =>
    client.destinations.create(endpointId, { name: "Changing", receiver_url: receiver.url + path });
  const arrived = (eventId: string, path: string) =>
    receiver.requests.find(
      (request) => request.headers["webhook-id"] === eventId && request.path === path,
    );

  /** Measures how long after the answer to `change` its effect was first seen. */
  async function measure(
    kind: string,
    change: () => Promise<unknown>,
    seen: () => Promise<boolean>,
  ) {
    await change();
    const changedAt = performance.now();
    while (!(await seen())) {
      if (performance.now() - changedAt > 60_000) throw new Error(`${kind} never took effect`);
      await delay(2);
    }
    const took = performance.now() - changedAt;
    effectiveMs.set(kind, [...(effectiveMs.get(kind) ?? []), took]);
  }

  const answers = (endpoint: Endpoint, status: number, secret?: string) => async () =>
    (await postGithubWebhook(endpoint.url, "{}", secret)).status === status;

  /** Tells whether an event whose control has arrived was planned without the destinations that it has not reached yet. */
  const isSettled = (control: ReceivedRequest) => Date.now() - control.atMs > SETTLED_MS;

  /** Tells whether an event accepted now reaches (or is kept from) the path, judged by a destination that always gets it. */
  const fansOut = (endpoint: Endpoint, path: string, wanted: boolean) => async () => {
    const { status, eventId } = await postGithubWebhook(endpoint.url, '{"fan":"out"}');
    expect(status).toBe(200);
    await until(() => {
      const control = arrived(eventId, "/control");
      return arrived(eventId, path) !== undefined || (control !== undefined && isSettled(control));
    }, "the delivery");
    return (arrived(eventId, path) !== undefined) === wanted;
  };

  for (let round = 1; round <= ROUNDS; round += 1)
    it(`round ${round}: pause, resume, patch, rotate and delete take effect`, async () => {
      const endpoint = await makeEndpoint();
      await makeDestination(endpoint.id, "/control");
      expect((await postGithubWebhook(endpoint.url, "{}")).status).toBe(200);
      const { endpoints, destinations } = client;

      await measure("endpoint paused", () => endpoints.pause(endpoint.id), answers(endpoint, 409));
      await measure(
        "endpoint resumed",
        () => endpoints.resume(endpoint.id),
        answers(endpoint, 200),
      );
      await measure(
        "endpoint patched",
        () => endpoints.update(endpoint.id, { secret: "patched" }),
        answers(endpoint, 200, "patched"),
      );
      expect((await postGithubWebhook(endpoint.url, "{}")).status).toBe(401);
      let rotated = "";
      await measure(
        "endpoint rotated",
        async () => (rotated = (await endpoints.rotateSecret(endpoint.id)).secret),
        () => answers(endpoint, 200, rotated)(),
      );
      expect((await postGithubWebhook(endpoint.url, "{}", "patched")).status).toBe(401);
      await endpoints.update(endpoint.id, { secret: GITHUB_SECRET });
      await until(answers(endpoint, 200), "the secret of the load");

      const path = `/changing-${round}`;
      let id = "";
      await measure(
        "destination created",
        async () => (id = (await makeDestination(endpoint.id, path)).id),
        fansOut(endpoint, path, true),
      );
      await measure(
        "destination paused",
        () => destinations.pause(id),
        fansOut(endpoint, path, false),
      );
      await measure(
        "destination resumed",
        () => destinations.resume(id),
        fansOut(endpoint, path, true),
      );
      await measure(
        "destination patched",
        () => destinations.update(id, { receiver_url: `${receiver.url}${path}-new` }),
        fansOut(endpoint, `${path}-new`, true),
      );
      await measure(
        "destination deleted",
        () => destinations.delete(id),
        fansOut(endpoint, `${path}-new`, false),
      );
      await measure(
        "endpoint deleted",
        () => endpoints.delete(endpoint.id),
        answers(endpoint, 404),
      );
    });

  it("took effect long before the time to live, a hundred of a hundred (prints the slowest)", () => {
    const all = [...effectiveMs.values()].flat();
    for (const [kind, times] of effectiveMs)
      console.log(`${kind}: slowest of ${times.length} after ${Math.round(Math.max(...times))} ms`);
    expect(all).toHaveLength(100);
    expect(all.filter((ms) => ms >= LIMIT_MS)).toEqual([]);
    expect(loadStatuses.length).toBeGreaterThan(20);
    expect(new Set(loadStatuses)).toEqual(new Set([200]));
  });
});
