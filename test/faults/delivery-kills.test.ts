import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

const IS_LONG = process.env["RELAY_TEST_LONG"] === "true";
const DESTINATIONS = 10;
const EVENTS = IS_LONG ? 10_000 : 500;
const DELIVERIES = EVENTS * DESTINATIONS;
const KILLS = IS_LONG ? 10 : 4;
const SENDERS = 16;
/** One in so many deliveries takes 10 s to be answered. */
const SLOW_EVERY = IS_LONG ? 500 : 250;
const SLOW_MS = 10_000;
/** Ends are durable within 100 ms on a quiet machine; this one may be busy. */
const DURABLE_MS = 1_000;

interface Arrival {
  answeredAtMs: number;
}

it(
  `${DELIVERIES} deliveries through ${KILLS} kills, some of them 10 s long: none lost, duplicates only of what was in flight (I2, I8)`,
  async () => {
    const arrivals = new Map<string, Arrival[]>();
    let requests = 0;
    const server = createServer((request, response) => {
      request.resume();
      request.once("end", () => {
        requests += 1;
        const { headers } = request;
        const key = [
          headers["webhook-id"],
          headers["x-relay-destination-id"],
          headers["x-relay-attempt"],
        ].join(" ");
        const arrival: Arrival = { answeredAtMs: Number.POSITIVE_INFINITY };
        const list = arrivals.get(key);
        if (list === undefined) arrivals.set(key, [arrival]);
        else list.push(arrival);
        const answer = (): void => {
          arrival.answeredAtMs = Date.now();
          response.end("ok");
        };
        if (requests % SLOW_EVERY === 0) setTimeout(answer, SLOW_MS);
        else answer();
      });
    });
    server.listen(0, "127.0.0.1", 1_024);
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
    await using relay = await makeRelayProcess({
      RELAY_DELIVERY_TIMEOUT_MS: "60000",
      RELAY_RETRY_BASE_MS: "500",
    });
    await relay.start();
    const endpoint = await createGithubEndpoint(relay.client, "Killed");
    const destinationIds: string[] = [];
    for (let index = 0; index < DESTINATIONS; index += 1)
      destinationIds.push(
        (
          await relay.client.destinations.create(endpoint.id, {
            name: `Receiver ${index}`,
            receiver_url: `${url}/${index}`,
          })
        ).id,
      );

    const accepted = new Set<string>();
    let sent = 0;
    const send = async (): Promise<void> => {
      while (accepted.size < EVENTS) {
        sent += 1;
        try {
          const { status, eventId } = await postGithubWebhook(
            endpoint.url,
            JSON.stringify({ sent }),
          );
          if (status === 200) accepted.add(eventId);
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    };
    const senders = Promise.all(Array.from({ length: SENDERS }, send));
    let atRisk = 0;
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const goal = (DELIVERIES / (KILLS + 1)) * kill;
      await waitFor(`${goal} deliveries before kill ${kill}`, () => arrivals.size >= goal, 600_000);
      await relay.kill("SIGKILL");
      const killedAtMs = Date.now();
      for (const list of arrivals.values())
        for (const { answeredAtMs } of list)
          if (answeredAtMs > killedAtMs - DURABLE_MS) atRisk += 1;
      await relay.start();
    }
    await senders;
    const lost = (): string[] =>
      [...accepted].flatMap((eventId) =>
        destinationIds.map((id) => `${eventId} ${id} 1`).filter((key) => !arrivals.has(key)),
      );
    await waitFor("all deliveries", () => lost().length === 0, 600_000, 500);
    const isAnswered = (): boolean =>
      [...arrivals.values()].every((list) => list.some((one) => one.answeredAtMs < Date.now()));
    await waitFor("the slow ones", isAnswered, 60_000, 500);
    let duplicates = 0;
    for (const list of arrivals.values()) duplicates += list.length - 1;
    console.log(
      `${accepted.size} events to ${DESTINATIONS} destinations over ${KILLS} kills: ${requests} requests, ${duplicates} repeated, ${atRisk} whose end was not durable yet`,
    );
    expect(duplicates).toBeLessThanOrEqual(atRisk);
    server.closeAllConnections();
    server.close();
  },
  IS_LONG ? 3_600_000 : 600_000,
);
