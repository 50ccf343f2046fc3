import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type {
  Attempt,
  CreatedDestination,
  DestinationCreate,
  Endpoint,
} from "../../src/client/types.ts";
import { reservePort } from "../../src/app/reserve-port.ts";
import { GITHUB_SECRET, postGithubWebhook } from "../support/github-webhook.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeRelayProcess, type RelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";
import { findRateBreaches } from "../faults/harness/check-rate.ts";
import { startLedgerReceiverProcess } from "../faults/harness/ledger-receiver.ts";

const RETRY_BASE_MS = 400;

describe("deliveries through the started service", () => {
  let relay: RelayProcess;
  let projectId: string;

  beforeAll(async () => {
    relay = await makeRelayProcess({
      RELAY_RETRY_BASE_MS: String(RETRY_BASE_MS),
      RELAY_DELIVERY_TIMEOUT_MS: "1500",
    });
    await relay.start();
    projectId = (await relay.client.projects.create({ name: "Deliveries" })).id;
  });
  afterAll(() => relay[Symbol.asyncDispose]());

  async function connect(
    receiverUrl: string,
    settings: Partial<DestinationCreate> = {},
  ): Promise<{ endpoint: Endpoint; destination: CreatedDestination }> {
    const endpoint = await relay.client.endpoints.create(projectId, {
      name: "GitHub",
      provider: "github",
      secret: GITHUB_SECRET,
    });
    const destination = await relay.client.destinations.create(endpoint.id, {
      name: "Receiver",
      receiver_url: receiverUrl,
      retry_backoff: "fixed",
      ...settings,
    });
    return { endpoint, destination };
  }

  async function attemptsOf(eventId: string, count: number): Promise<readonly Attempt[]> {
    return waitFor(`${count} attempts`, async () => {
      const attempts = await relay.client.events.attempts(eventId);
      return attempts.length >= count ? attempts : null;
    });
  }

  it("retries with a new timestamp and signature but the same id, then gives up as dead", async () => {
    await using receiver = await startReceiver(() => 500);
    const { endpoint } = await connect(receiver.url, { retry_max_attempts: 2 });
    const { eventId } = await postGithubWebhook(endpoint.url, '{"dead":true}');
    const attempts = await attemptsOf(eventId, 3);
    expect(
      attempts.map(({ status, http_status, attempt_number }) => [
        status,
        http_status,
        attempt_number,
      ]),
    ).toEqual([
      ["failed", 500, 1],
      ["failed", 500, 2],
      ["dead", 500, 3],
    ]);
    expect(attempts[0]?.next_retry_at).not.toBeNull();
    expect(attempts[2]?.next_retry_at).toBeNull();
    expect(receiver.requests.map((request) => request.headers["x-relay-attempt"])).toEqual([
      "1",
      "2",
      "3",
    ]);
    expect(new Set(receiver.requests.map((request) => request.headers["webhook-id"]))).toEqual(
      new Set([eventId]),
    );
    expect((await relay.client.events.get(eventId)).delivery_summary).toEqual({
      delivered: 0,
      failed: 1,
      pending: 0,
      total: 1,
    });
  });

  it("does not follow a redirect, and says why there was no response", async () => {
    await using redirecting = await startReceiver(() => 302);
    const redirected = await connect(redirecting.url, { retry_max_attempts: 0 });
    const first = await postGithubWebhook(redirected.endpoint.url, "{}");
    expect(await attemptsOf(first.eventId, 1)).toMatchObject([
      { status: "dead", http_status: 302 },
    ]);

    const nobody = await connect(`http://127.0.0.1:${await reservePort("127.0.0.1")}/none`, {
      retry_max_attempts: 0,
    });
    const second = await postGithubWebhook(nobody.endpoint.url, "{}");
    const [refused] = await attemptsOf(second.eventId, 1);
    expect(refused).toMatchObject({ status: "dead", http_status: 0 });
    expect(refused?.response_body).toMatch(/refused/i);
  });

  it("disables a destination after a 410 and takes it back on resume", async () => {
    let status = 410;
    await using receiver = await startReceiver(() => status);
    const { endpoint, destination } = await connect(receiver.url);
    const { eventId } = await postGithubWebhook(endpoint.url, "{}");
    expect(await attemptsOf(eventId, 1)).toMatchObject([{ status: "dead", http_status: 410 }]);
    await waitFor(
      "the destination disabled",
      async () => (await relay.client.destinations.get(destination.id)).status === "disabled",
    );
    status = 200;
    expect((await relay.client.destinations.resume(destination.id)).status).toBe("active");
    await relay.client.events.replayTo(eventId, destination.id);
    await waitFor("the replay", () => receiver.requests.length === 2);
  });

  it("keeps to a limit per second in every sliding window and says when the next try is due", async () => {
    const max = 5;
    // This process is busy sending: it would note arrivals late.
    await using receiver = await startLedgerReceiverProcess();
    const { endpoint } = await connect(`${receiver.url}/ok`, {
      rate_limit_max: max,
      rate_limit_window: "second",
    });
    const sent = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        postGithubWebhook(endpoint.url, JSON.stringify({ index })),
      ),
    );
    await waitFor("all deliveries", () => receiver.received.length === sent.length, 40_000);
    expect(findRateBreaches(receiver.received, { max, windowMs: 1_000 })).toEqual([]);
    expect(new Set(receiver.received.map(({ eventId }) => eventId)).size).toBe(sent.length);
    const facets = await waitFor("the facets", async () => {
      const found = await relay.client.events.facets({ endpoint_id: endpoint.id });
      return found.by_attempt_status.some(
        ({ value, count }) => value === "delivered" && count === sent.length,
      )
        ? found
        : null;
    });
    const deferred =
      facets.by_attempt_status.find(({ value }) => value === "rate_limited")?.count ?? 0;
    // Deliveries for which the limit had room at once have no other row.
    expect(deferred).toBeGreaterThanOrEqual(sent.length / 2);
    expect(deferred).toBeLessThanOrEqual(sent.length * 2);
  });

  it("gives a deferral the number of the try that came of it, when replays of one event wait together", async () => {
    const replays = 5;
    await using receiver = await startReceiver();
    const { endpoint, destination } = await connect(receiver.url, {
      rate_limit_max: 1,
      rate_limit_window: "second",
    });
    const { eventId } = await postGithubWebhook(endpoint.url, "{}");
    for (let replay = 0; replay < replays; replay += 1)
      await relay.client.events.replayTo(eventId, destination.id);
    const attempts = await waitFor(
      "the replays",
      async () => {
        const rows = await relay.client.events.attempts(eventId);
        return rows.filter(({ status }) => status === "delivered").length > replays ? rows : null;
      },
      40_000,
    );
    const tries = attempts.filter(({ status }) => status === "delivered");
    expect(tries.map(({ attempt_number }) => attempt_number)).toEqual([1, 2, 3, 4, 5, 6]);
    const deferrals = attempts.filter(({ status }) => status === "rate_limited");
    expect(deferrals.length).toBeGreaterThan(1);
    for (const { attempt_number, next_retry_at } of deferrals) {
      // Tries are a second apart, so half a second tells them apart.
      const earlyMs =
        Date.parse(next_retry_at!) - Date.parse(tries[attempt_number - 1]!.attempted_at);
      expect(earlyMs).toBeLessThan(500);
    }
  });

  it("holds the pending deliveries of a paused destination and continues them on resume, with the new URL", async () => {
    let status = 503;
    await using receiver = await startReceiver(() => status);
    const { endpoint, destination } = await connect(`${receiver.url}/old`, {
      retry_max_attempts: 10,
    });
    const { eventId } = await postGithubWebhook(endpoint.url, '{"held":true}');
    await waitFor("the first try", () => receiver.requests.length > 0);
    await relay.client.destinations.pause(destination.id);
    await waitFor("no more tries", async () => {
      const before = receiver.requests.length;
      await new Promise((resolve) => setTimeout(resolve, RETRY_BASE_MS * 4));
      return receiver.requests.length === before;
    });
    const whilePaused = await postGithubWebhook(endpoint.url, '{"while":"paused"}');
    status = 200;
    await relay.client.destinations.update(destination.id, { receiver_url: `${receiver.url}/new` });
    await relay.client.destinations.resume(destination.id);
    const delivered = await waitFor("the held delivery", () =>
      receiver.requests.find((request) => request.path === "/new"),
    );
    expect(delivered.headers["webhook-id"]).toBe(eventId);
    expect(
      receiver.requests.some((request) => request.headers["webhook-id"] === whilePaused.eventId),
    ).toBe(false);
    await relay.client.events.replay(whilePaused.eventId);
    await waitFor("what arrived while it was paused, by replay", () =>
      receiver.requests.some((request) => request.headers["webhook-id"] === whilePaused.eventId),
    );
  });

  it("ends the pending deliveries of a deleted destination as dead", async () => {
    await using receiver = await startReceiver(() => 503);
    const { endpoint, destination } = await connect(receiver.url, { retry_max_attempts: 10 });
    const { eventId } = await postGithubWebhook(endpoint.url, '{"deleted":true}');
    await waitFor("the first try", () => receiver.requests.length > 0);
    await relay.client.destinations.delete(destination.id);
    await waitFor(
      "the end",
      async () => (await relay.client.events.attempts(eventId)).at(-1)?.status === "dead",
    );
  });

  it("signs with both secrets after a rotation, and forwards the original signature only on request", async () => {
    await using receiver = await startReceiver();
    const { endpoint, destination } = await connect(receiver.url, {
      forward_original_signature: true,
    });
    await postGithubWebhook(endpoint.url, "{}");
    const before = await waitFor("a delivery", () => receiver.requests[0]);
    expect(String(before.headers["webhook-signature"]).split(" ")).toHaveLength(1);
    expect(before.headers["x-hub-signature-256"]).toMatch(/^sha256=/);
    const { service_secret } = await relay.client.destinations.rotateSecret(destination.id);
    expect(service_secret).not.toBe(destination.service_secret);
    await waitFor("both signatures", async () => {
      const { eventId } = await postGithubWebhook(endpoint.url, "{}");
      const delivery = await waitFor("its delivery", () =>
        receiver.requests.find((request) => request.headers["webhook-id"] === eventId),
      );
      return String(delivery.headers["webhook-signature"]).split(" ").length === 2;
    });
  });
});
