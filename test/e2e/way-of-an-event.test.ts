import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Endpoint } from "../../src/client/types.ts";
import { verifyDelivery } from "../../src/signing/standard-webhooks.ts";
import { GITHUB_SECRET, postGithubWebhook } from "../support/github-webhook.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { checkedFetch } from "../support/checked-client.ts";
import { makeRelayProcess, runRelay, type RelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

describe("the way of an event through one process with embedded stores", () => {
  let relay: RelayProcess;
  let receiver: Receiver;
  let endpoint: Endpoint;
  let serviceSecret: string;
  let destinationId: string;

  beforeAll(async () => {
    receiver = await startReceiver();
    relay = await makeRelayProcess();
    await relay.start();
    const project = await relay.client.projects.create({ name: "End to end" });
    endpoint = await relay.client.endpoints.create(project.id, {
      name: "GitHub",
      provider: "github",
      secret: GITHUB_SECRET,
    });
    const destination = await relay.client.destinations.create(endpoint.id, {
      name: "Receiver",
      receiver_url: `${receiver.url}/hook`,
    });
    serviceSecret = destination.service_secret;
    destinationId = destination.id;
  });
  afterAll(async () => {
    await relay[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });

  it("delivers the raw bytes once, signed, with the event's id", async () => {
    const body = '{"zen":"Ünïcode & <b>","n":1.10}';
    const { status, eventId } = await postGithubWebhook(endpoint.url, body);
    expect(status).toBe(200);
    const delivery = await waitFor("the delivery", () =>
      receiver.requests.find((request) => request.headers["webhook-id"] === eventId),
    );
    expect(delivery.body.toString()).toBe(body);
    expect(delivery.headers["content-type"]).toBe("application/json");
    expect(delivery.headers["x-relay-destination-id"]).toBe(destinationId);
    expect(delivery.headers["x-hub-signature-256"]).toBeUndefined();
    const signed = {
      id: eventId,
      timestampSeconds: Number(delivery.headers["webhook-timestamp"]),
      body: delivery.body,
    };
    expect(
      verifyDelivery(signed, serviceSecret, String(delivery.headers["webhook-signature"])),
    ).toBe(true);
    const detail = await waitFor("the attempt", async () => {
      const found = await relay.client.events.get(eventId);
      return found.attempts.length > 0 ? found : null;
    });
    expect(detail).toMatchObject({
      payload: body,
      payload_encoding: "utf8",
      signature_valid: true,
      delivery_summary: { delivered: 1, failed: 0, pending: 0, total: 1 },
    });
    expect(detail.attempts[0]).toMatchObject({
      status: "delivered",
      http_status: 200,
      attempt_number: 1,
      next_retry_at: null,
    });
  });

  it("records a forged webhook with its reason and delivers it to nobody", async () => {
    const { status, eventId } = await postGithubWebhook(
      endpoint.url,
      '{"forged":true}',
      "another secret",
    );
    expect(status).toBe(401);
    const detail = await relay.client.events.get(eventId);
    expect(detail.signature_valid).toBe(false);
    expect(detail.verification_error).toMatch(/X-Hub-Signature-256 does not match/);
    expect(detail.delivery_summary).toBeNull();
    expect(receiver.requests.some((request) => request.headers["webhook-id"] === eventId)).toBe(
      false,
    );
  });

  it("answers 409 while the endpoint is paused, records the arrival, and accepts again after resume", async () => {
    await relay.client.endpoints.pause(endpoint.id);
    const paused = await waitFor("the pause", async () => {
      const answer = await postGithubWebhook(endpoint.url, '{"while":"paused"}');
      return answer.status === 409 ? answer : null;
    });
    const detail = await relay.client.events.get(paused.eventId);
    expect(detail).toMatchObject({ signature_valid: false });
    expect(detail.verification_error).toMatch(/paused/);
    await relay.client.endpoints.resume(endpoint.id);
    await waitFor(
      "the resume",
      async () => (await postGithubWebhook(endpoint.url, "{}")).status === 200,
    );
  });

  it("replays an event to all and to one destination, numbering its attempts on", async () => {
    const { eventId } = await postGithubWebhook(endpoint.url, '{"replay":"me"}');
    const deliveries = () =>
      receiver.requests.filter((request) => request.headers["webhook-id"] === eventId);
    await waitFor("the first delivery", () => deliveries().length === 1);
    expect(await relay.client.events.replay(eventId)).toEqual({
      event_id: eventId,
      enqueued: [{ destination_id: destinationId }],
    });
    await waitFor("the replay", () => deliveries().length === 2);
    await relay.client.events.replayTo(eventId, destinationId);
    await waitFor("the second replay", () => deliveries().length === 3);
    expect(deliveries().map((request) => request.headers["x-relay-trigger"])).toEqual([
      "event",
      "replay",
      "replay",
    ]);
    const attempts = await waitFor("three attempts", async () => {
      const found = await relay.client.events.attempts(eventId);
      return found.length === 3 ? found : null;
    });
    expect(attempts.map((attempt) => attempt.attempt_number)).toEqual([1, 2, 3]);
  });

  it("sends a test webhook through the public ingest URL", async () => {
    const result = await relay.client.endpoints.test(endpoint.id);
    expect(result).toMatchObject({ accepted: true, status: 200, error: null, url: endpoint.url });
    await waitFor("its delivery", () =>
      receiver.requests.some((request) => request.headers["webhook-id"] === result.event_id),
    );
  });

  it("shows an event in the list soon after its 2xx and delivers it at once when idle (prints how soon)", async () => {
    const delivered: number[] = [];
    const visible: number[] = [];
    for (let index = 0; index < 15; index += 1) {
      const { eventId } = await postGithubWebhook(endpoint.url, JSON.stringify({ index }));
      const answeredAt = Date.now();
      const delivery = await waitFor(
        "the delivery",
        () => receiver.requests.find((request) => request.headers["webhook-id"] === eventId),
        30_000,
        1,
      );
      delivered.push(Math.max(0, delivery.atMs - answeredAt));
      await waitFor(
        "the event in the list",
        async () =>
          (await relay.client.events.search({ limit: 5 })).data.some(
            (event) => event.id === eventId,
          ),
        30_000,
        5,
      );
      visible.push(Date.now() - answeredAt);
    }
    const median = (values: number[]) =>
      values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
    console.log(
      `idle: delivered ${median(delivered)} ms and listed ${median(visible)} ms after the 2xx (medians of ${delivered.length}; worst ${Math.max(...delivered)} and ${Math.max(...visible)} ms)`,
    );
    expect(delivered).toHaveLength(15);
  });

  it("lets `relay keys` work beside it: a new key is accepted, a revoked one refused", async () => {
    const created = await runRelay(["keys", "create", "--org", "default", "--scope", "read"], {
      RELAY_DATA_DIR: relay.dataDir,
    });
    expect(created).toMatchObject({ code: 0 });
    const key = created.stdout.trim();
    const ask = () =>
      checkedFetch(`http://127.0.0.1:${relay.ports.api}/projects`, {
        headers: { authorization: `Bearer ${key}` },
      });
    expect((await ask()).status).toBe(200);
    const listed = await runRelay(["keys", "list", "--org", "default"], {
      RELAY_DATA_DIR: relay.dataDir,
    });
    expect(listed.stdout).toContain(key.slice(0, 11));
    expect(listed.stdout).not.toContain(key);
    const revoked = await runRelay(["keys", "revoke", key, "--org", "default"], {
      RELAY_DATA_DIR: relay.dataDir,
    });
    expect(revoked).toMatchObject({ code: 0 });
    await waitFor("the refusal", async () => (await ask()).status === 401, 60_000, 250);
  }, 90_000);

  it("refuses a second owner of its data directory in one line, exit 2", async () => {
    const second = await runRelay(["start"], {
      ...relay.env,
      RELAY_API_PORT: "0",
      RELAY_INGEST_PORT: "0",
      RELAY_OPS_PORT: "0",
    });
    expect(second.code).toBe(2);
    expect(second.stderr.trim().split("\n")).toHaveLength(1);
    expect(second.stderr).toContain(`process id ${relay.pid()}`);
  });

  it("lets a further ingest process attach to its stores", async () => {
    await using further = await makeRelayProcess(
      {
        RELAY_DATA_DIR: relay.dataDir,
        RELAY_PUBLIC_INGEST_URL: endpoint.url.replace(/\/in\/.*/, ""),
      },
      ["--roles", "ingest"],
    );
    await further.start();
    const url = endpoint.url.replace(String(relay.ports.ingest), String(further.ports.ingest));
    const { status, eventId } = await postGithubWebhook(url, '{"through":"the second"}');
    expect(status).toBe(200);
    await waitFor("its delivery", () =>
      receiver.requests.some((request) => request.headers["webhook-id"] === eventId),
    );
    // The change is pushed: what the process knows would otherwise hold for 30 s.
    await relay.client.endpoints.pause(endpoint.id);
    const answers = async (wanted: number) =>
      (await postGithubWebhook(url, '{"through":"the second"}')).status === wanted;
    await waitFor("the pause to reach it", () => answers(409), 15_000);
    await relay.client.endpoints.resume(endpoint.id);
    await waitFor("the resumption to reach it", () => answers(200), 15_000);
    expect(await further.kill("SIGTERM")).toBe(0);
  }, 90_000);

  it("keeps its data over a restart by SIGTERM, which ends with exit 0", async () => {
    const before = await relay.client.events.search({ limit: 100 });
    expect(await relay.kill("SIGTERM")).toBe(0);
    await relay.start();
    const after = await relay.client.events.search({ limit: 100 });
    expect(after.pagination.total).toBeGreaterThanOrEqual(before.pagination.total);
    expect((await relay.client.endpoints.get(endpoint.id)).url).toBe(endpoint.url);
    expect((await postGithubWebhook(endpoint.url, '{"after":"restart"}')).status).toBe(200);
  }, 60_000);
});
