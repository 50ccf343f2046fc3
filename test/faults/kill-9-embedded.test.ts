import { describe, expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

const EVENTS = 5_000;
const KILLS = 4;
const SENDERS = 16;

describe("kill -9 under load, everything embedded", () => {
  it("loses no event that was answered 2xx: all are listed with their bytes and delivered (I1, I2)", async () => {
    await using receiver = await startReceiver();
    await using relay = await makeRelayProcess({ RELAY_RETRY_BASE_MS: "300" });
    await relay.start();
    await waitReady(relay.ports.ops);
    const endpoint = await createGithubEndpoint(relay.client, "Killed");
    await relay.client.destinations.create(endpoint.id, {
      name: "Receiver",
      receiver_url: `${receiver.url}/hook`,
      retry_backoff: "fixed",
    });

    const accepted = new Map<string, string>();
    let sent = 0;
    const send = async (): Promise<void> => {
      while (accepted.size < EVENTS) {
        sent += 1;
        const body = JSON.stringify({ number: sent });
        try {
          const { status, eventId } = await postGithubWebhook(endpoint.url, body);
          if (status === 200) accepted.set(eventId, body);
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    };
    const senders = Promise.all(Array.from({ length: SENDERS }, send));
    for (let kill = 1; kill <= KILLS; kill += 1) {
      await waitFor(
        "load before the kill",
        () => accepted.size >= (EVENTS / (KILLS + 1)) * kill,
        120_000,
      );
      await relay.kill("SIGKILL");
      await relay.start();
      await waitReady(relay.ports.ops);
    }
    await senders;

    const deliveries = () =>
      new Set(receiver.requests.map((request) => String(request.headers["webhook-id"])));
    await waitFor(
      "all deliveries",
      () => {
        const seen = deliveries();
        return [...accepted.keys()].every((id) => seen.has(id));
      },
      120_000,
      200,
    );
    const wrong = receiver.requests.filter((request) => {
      const body = accepted.get(String(request.headers["webhook-id"]));
      return body !== undefined && body !== request.body.toString();
    });
    expect(wrong).toEqual([]);

    const listed = await waitFor(
      "all events in the list",
      async () => {
        const found = new Set<string>();
        for (let page = 1; ; page += 1) {
          const { data, pagination } = await relay.client.events.search({ limit: 100, page });
          for (const event of data) found.add(event.id);
          if (!pagination.has_next) break;
        }
        return [...accepted.keys()].every((id) => found.has(id)) ? found : null;
      },
      60_000,
      500,
    );
    const duplicates = receiver.requests.length - deliveries().size;
    console.log(
      `${accepted.size} answered 2xx over ${KILLS} kills; ${listed.size} listed; ${receiver.requests.length} requests at the receiver, ${duplicates} of them repeated`,
    );
    const sample = [...accepted.keys()].filter((_, index) => index % 500 === 0);
    for (const id of sample)
      expect((await relay.client.events.get(id)).payload).toBe(accepted.get(id));
  }, 400_000);
});

async function waitReady(port: number): Promise<void> {
  await waitFor(
    "readiness",
    async () => {
      try {
        return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
      } catch {
        return false;
      }
    },
    60_000,
    50,
  );
}
