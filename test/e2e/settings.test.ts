import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeMetricsRegistry } from "../../src/adapters/prometheus/registry.ts";
import { openLog } from "../../src/app/open-log.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import type { Client } from "../../src/client/client.ts";
import type { Endpoint } from "../../src/client/types.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import { encodeEvent } from "../../src/pipeline/log/event-codec.ts";
import { startApiRelay, type ApiRelay } from "../support/api-relay.ts";
import { makeCheckedClient } from "../support/checked-client.ts";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { silentLogger } from "../support/silent-logger.ts";
import { waitFor } from "../support/wait-for.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** What the parts do with them is tested with each part: here, that each setting reaches its part. */
describe("a relay with other settings than the default ones keeps to", () => {
  let relay: ApiRelay;
  let client: Client;
  let orgId: string;
  let receiver: Receiver;

  beforeAll(async () => {
    receiver = await startReceiver();
    relay = await startApiRelay({
      RELAY_INGEST_RATE_LIMIT: "1",
      RELAY_ROTATION_OVERLAP_MS: "0",
      RELAY_RETENTION_DAYS: "1",
      RELAY_CONFIG_TTL_MS: "1000",
    });
    const made = await relay.newKey(["read", "write"], null);
    ({ orgId } = made);
    client = makeCheckedClient({ baseUrl: relay.apiUrl, apiKey: made.key });
  });
  afterAll(async () => {
    await relay[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });

  async function connect(path: string): Promise<{ endpoint: Endpoint; destinationId: string }> {
    const endpoint = await createGithubEndpoint(client, path.slice(1));
    const { id } = await client.destinations.create(endpoint.id, {
      name: "Receiver",
      receiver_url: receiver.url + path,
    });
    return { endpoint, destinationId: id };
  }

  const arrivedAt = (path: string) => receiver.requests.filter((request) => request.path === path);

  async function deadDeliveries(): Promise<number> {
    const text = await (await fetch(`${relay.opsUrl}/metrics`)).text();
    return Number(/^relay_delivery_attempts_total\{status="dead"\} (\d+)$/m.exec(text)?.[1] ?? 0);
  }

  it("RELAY_INGEST_RATE_LIMIT", async () => {
    const { endpoint } = await connect("/limited");
    const posts = Array.from({ length: 5 }, () => postGithubWebhook(endpoint.url, "{}"));
    const statuses = (await Promise.all(posts)).map(({ status }) => status);
    expect(statuses).toContain(200);
    expect(statuses).toContain(429);
  });

  it("RELAY_ROTATION_OVERLAP_MS", async () => {
    const { endpoint, destinationId } = await connect("/rotated");
    await client.destinations.rotateSecret(destinationId);
    await postGithubWebhook(endpoint.url, "{}");
    const [request] = await waitFor("the delivery", () => {
      const arrived = arrivedAt("/rotated");
      return arrived.length > 0 ? arrived : null;
    });
    expect(String(request?.headers["webhook-signature"]).split(" ")).toHaveLength(1);
  });

  it("RELAY_RETENTION_DAYS: what is older is neither delivered nor shown", async () => {
    const { endpoint } = await connect("/old");
    const [old, young] = [-MINUTE_MS, HOUR_MS].map((laterMs) =>
      eventOf(endpoint, Date.now() - DAY_MS + laterMs),
    );
    await append([old!, young!]);
    await waitFor("the delivery of the younger", () => arrivedAt("/old").length > 0);
    await waitFor("the end of the older", async () => (await deadDeliveries()) > 0);
    const ids = arrivedAt("/old").map(({ headers }) => headers["webhook-id"]);
    expect(ids).toEqual([young!.id]);
    await waitFor("the row of the younger", () => client.events.get(young!.id).catch(() => null));
    await expect(client.events.get(old!.id)).rejects.toMatchObject({ status: 404 });
  });

  it("RELAY_CONFIG_TTL_MS: a change that nobody was told of is seen after it", async () => {
    const { endpoint } = await connect("/untold");
    expect(await postGithubWebhook(endpoint.url, "{}")).toMatchObject({ status: 200 });
    const { database } = relay.relay.configStore;
    await database.run("ALTER TABLE endpoints DISABLE TRIGGER USER");
    await database.run("UPDATE endpoints SET status = 'paused' WHERE id = $1", [endpoint.id]);
    await database.run("ALTER TABLE endpoints ENABLE TRIGGER USER");
    const post = () => postGithubWebhook(endpoint.url, "{}");
    await waitFor("a refusal", async () => (await post()).status === 409, 10_000, 1_100);
  });

  function eventOf(endpoint: Endpoint, receivedAtMs: number): EventRecord {
    const body = Buffer.from("{}");
    return {
      id: makeIdGenerator()("event", receivedAtMs),
      orgId,
      endpointId: endpoint.id,
      provider: "github",
      receivedAtMs,
      method: "POST",
      path: "/in/token",
      query: "",
      headers: [["content-type", "application/json"]],
      contentType: "application/json",
      sourceIp: "127.0.0.1",
      signatureValid: true,
      verificationError: null,
      reason: "ok",
      bodyStored: true,
      payloadSizeBytes: body.length,
      body,
    };
  }

  /** As an ingest of another process does, in one append. */
  async function append(events: readonly EventRecord[]): Promise<void> {
    await using log = await openLog({
      config: loadConfig({ RELAY_DATA_DIR: relay.dataDir }),
      dataDirMode: "attach",
      clock: makeSystemClock(),
      logger: silentLogger,
      registry: makeMetricsRegistry().registry,
    });
    await log.append(
      events.map((event) => ({
        topic: "events",
        key: event.endpointId,
        value: encodeEvent(event),
      })),
    );
  }
});
