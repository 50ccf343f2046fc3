import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { postGithubWebhook, GITHUB_SECRET } from "../support/github-webhook.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { makeRelayProcess, type RelayProcess } from "../support/relay-process.ts";
import { freshPrefix } from "../support/stores/kafka-harness.ts";
import { startLocalKafka } from "../support/stores/kafka-local.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { mountSmallDisk, smallDiskRefusal } from "../support/stores/small-disk.ts";
import { waitFor } from "../support/wait-for.ts";

const refused = await smallDiskRefusal();

describe.skipIf(refused !== null && skipOrFail("a small disk", refused))("a full disk", () => {
  it("under the embedded log: 503, nothing lost, and 2xx again by itself when there is room", async () => {
    await using receiver = await startReceiver();
    await using relay = await makeRelayProcess({ RELAY_RETRY_BASE_MS: "250" });
    await using disk = await mountSmallDisk(24, join(relay.dataDir, "log"));
    await relay.start();
    const load = await makeLoad(relay, receiver);
    await load.sendUntil("2xx", (status) => status === 200);
    await load.sendMany(20);
    await disk.fill();
    await load.sendUntil("503", async (status) => {
      await disk.fill();
      return status === 503;
    });
    await load.sendMany(5);
    expect(load.statuses()).toEqual(new Set([200, 503]));
    const pid = relay.pid();
    await disk.free();
    await load.sendUntil("2xx again", (status) => status === 200);
    await load.sendMany(20);
    await load.expectNothingLost();
    expect(relay.pid()).toBe(pid);
    expect(() => process.kill(pid, 0)).not.toThrow();
    await relay.kill("SIGKILL");
  }, 600_000);

  it("under ClickHouse: accepts and delivers, and lists all of it when there is room", async () => {
    await using receiver = await startReceiver();
    await using relay = await makeRelayProcess({ RELAY_RETRY_BASE_MS: "250" });
    await using disk = await mountSmallDisk(96, join(relay.dataDir, "clickhouse"));
    await relay.start();
    const load = await makeLoad(relay, receiver);
    await load.sendUntil("2xx", (status) => status === 200);
    await load.expectNothingLost();
    await disk.fill();
    for (let round = 1; round <= 5; round += 1) {
      await load.sendMany(20);
      await load.expectDelivered();
      await disk.fill();
    }
    await waitFor(
      "an insert that failed",
      () => relay.output().includes('"record.failed"'),
      60_000,
    );
    await disk.free();
    await load.sendMany(20);
    expect(load.statuses()).toEqual(new Set([200]));
    await load.expectNothingLost();
    await relay.kill("SIGKILL");
  }, 600_000);

  it("regression: a disk that is full at a start which has tables to change keeps them whole: the engine put empty definitions in their place, and no later start could open them", async () => {
    await using receiver = await startReceiver();
    await using relay = await makeRelayProcess({ RELAY_RETRY_BASE_MS: "250" });
    await using disk = await mountSmallDisk(96, join(relay.dataDir, "clickhouse"));
    await relay.start();
    const load = await makeLoad(relay, receiver);
    await load.sendUntil("2xx", (status) => status === 200);
    await load.expectNothingLost();
    await relay.kill("SIGTERM");
    await disk.fill();
    relay.env["RELAY_RETENTION_DAYS"] = "20";
    await relay.start();
    await waitFor("what is missing", () => relay.output().includes("make room for 64 MiB"), 60_000);
    await load.sendMany(20);
    await load.expectDelivered();
    expect(load.statuses()).toEqual(new Set([200]));
    await disk.free();
    await waitFor("the change", () => relay.output().includes('"part.restarted"'), 60_000);
    await load.expectNothingLost();
    await relay.kill("SIGTERM");
    await relay.start();
    await load.expectNothingLost();
    await relay.kill("SIGKILL");
  }, 600_000);

  it("under the broker: 503, nothing lost, and 2xx again when there is room and the broker is back", async () => {
    await using receiver = await startReceiver();
    await using disk = await mountSmallDisk(160);
    await using kafka = await startLocalKafka(1, {}, { dataDirs: [join(disk.path, "data")] });
    await using relay = await makeRelayProcess({
      RELAY_RETRY_BASE_MS: "250",
      RELAY_DELIVERY_TIMEOUT_MS: "4000",
      RELAY_PARTITIONS: "2",
      KAFKA_BROKERS: kafka.brokers.join(),
      RELAY_TOPIC_PREFIX: freshPrefix(),
      RELAY_ENCRYPTION_KEY: randomBytes(32).toString("base64"),
    });
    await relay.start();
    const load = await makeLoad(relay, receiver);
    await load.sendUntil("2xx", (status) => status === 200);
    await load.sendMany(20);
    await load.sendUntil("503", async (status) => {
      await disk.fill();
      return status === 503;
    });
    expect(load.statuses()).toEqual(new Set([200, 503]));
    await disk.free();
    await load.sendUntil("2xx again", async (status) => {
      // A broker that cannot write shuts itself down, which may take a while; restart it as its service manager would.
      if (!kafka.isRunning(1)) await kafka.restart(1);
      return status === 200;
    });
    await load.sendMany(20);
    await load.expectNothingLost();
    await relay.kill("SIGKILL");
  }, 600_000);
});

/** A restarted broker takes long on a slow machine. */
const WITHIN_MS = 150_000;

/** Makes a load of webhooks of some kilobytes to one endpoint with one destination, and tracks their outcomes. */
async function makeLoad(relay: RelayProcess, receiver: Receiver) {
  const since = new Date(Date.now() - 1_000).toISOString();
  const { client } = relay;
  await waitFor("readiness", async () => {
    const answer = await fetch(`http://127.0.0.1:${relay.ports.ops}/readyz`).catch(() => null);
    return answer?.ok === true;
  });
  const project = await client.projects.create({ name: "Full disk" });
  const endpoint = await client.endpoints.create(project.id, {
    name: "GitHub",
    provider: "github",
    secret: GITHUB_SECRET,
  });
  await client.destinations.create(endpoint.id, {
    name: "Receiver",
    receiver_url: `${receiver.url}/hook`,
    retry_max_attempts: 10,
  });
  const accepted = new Map<string, string>();
  const statuses = new Set<number>();
  let number = 0;
  const send = async (): Promise<number> => {
    number += 1;
    const body = JSON.stringify({ number, noise: randomBytes(12_000).toString("base64") });
    const signal = AbortSignal.timeout(15_000);
    const { status, eventId } = await postGithubWebhook(endpoint.url, body, GITHUB_SECRET, {
      signal,
    });
    statuses.add(status);
    if (status === 200) accepted.set(eventId, body);
    return status;
  };
  const expectDelivered = async (): Promise<void> => {
    await waitFor(
      "all deliveries",
      () => {
        const seen = new Set(receiver.requests.map(({ headers }) => headers["webhook-id"]));
        return [...accepted.keys()].every((id) => seen.has(id));
      },
      WITHIN_MS,
      200,
    );
    const wrong = receiver.requests.filter(({ headers, body }) => {
      const sent = accepted.get(String(headers["webhook-id"]));
      return sent !== undefined && sent !== body.toString();
    });
    expect(wrong).toEqual([]);
  };
  return {
    statuses: () => statuses,
    sendMany: async (count: number) => {
      for (let index = 0; index < count; index += 1) await send();
    },
    sendUntil: (what: string, isEnough: (status: number) => boolean | Promise<boolean>) =>
      waitFor(what, async () => isEnough(await send()), WITHIN_MS),
    expectDelivered,
    expectNothingLost: async () => {
      await expectDelivered();
      const payloads = async () => {
        let listed = 0;
        for (let page = 1; ; page += 1) {
          const { data, pagination } = await client.events.search({
            from: since,
            page,
            limit: 100,
          });
          listed += data.filter(({ id }) => accepted.has(id)).length;
          if (!pagination.has_next) return listed;
        }
      };
      await waitFor(
        "all events in the list",
        async () => (await payloads()) === accepted.size,
        WITHIN_MS,
        300,
      );
      for (const [id, body] of accepted) expect((await client.events.get(id)).payload).toBe(body);
    },
  };
}
