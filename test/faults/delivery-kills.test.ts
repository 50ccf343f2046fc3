import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";
import { dumpEvents } from "./harness/dump.ts";
import { isLong } from "./harness/is-long.ts";

const DESTINATIONS = 10;
const EVENTS = isLong ? 10_000 : 500;
const DELIVERIES = EVENTS * DESTINATIONS;
const KILLS = isLong ? 10 : 4;
const SENDERS = 16;
/** One in this many deliveries takes 10 s to be answered. */
const SLOW_EVERY = isLong ? 500 : 250;
const SLOW_MS = 10_000;
/** Share of earlier deliveries to be durable before a kill's load: one event in 25 may still have one at a slow receiver. */
const MAX_RECORDED = 0.9;

interface Arrival {
  answeredAtMs: number;
}

it(
  `${DELIVERIES} deliveries through ${KILLS} kills, some of them 10 s long: none lost, duplicates only of what was in flight (I2, I8)`,
  async () => {
    const sinceMs = Date.now() - 1_000;
    const arrivals = new Map<string, Arrival[]>();
    /** Number of requests by event and destination, over all tries. */
    const requestsOf = new Map<string, number>();
    let requests = 0;
    const server = createServer((request, response) => {
      request.resume();
      request.once("end", () => {
        requests += 1;
        const { headers } = request;
        const delivery = [headers["webhook-id"], headers["x-relay-destination-id"]].join(" ");
        requestsOf.set(delivery, (requestsOf.get(delivery) ?? 0) + 1);
        const key = [delivery, headers["x-relay-attempt"]].join(" ");
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
    /** How many events may be accepted so far: the load for each kill is let in once the previous kill is over. */
    let wanted = 0;
    const send = async (): Promise<void> => {
      while (accepted.size < EVENTS) {
        if (accepted.size >= wanted) {
          await delay(20);
          continue;
        }
        sent += 1;
        try {
          const { status, eventId } = await postGithubWebhook(
            endpoint.url,
            JSON.stringify({ sent }),
          );
          if (status === 200) accepted.add(eventId);
        } catch {
          await delay(20);
        }
      }
    };
    const senders = Promise.all(Array.from({ length: SENDERS }, send));
    /** Reads the deliveries of events that the API shows as delivered to all: what it shows came out of the log, so it is durable. */
    const readDurable = async (): Promise<readonly string[]> => {
      const events = await dumpEvents(relay.client, sinceMs, Date.now() + 1_000);
      return events
        .filter(({ summary }) => summary?.delivered === DESTINATIONS)
        .flatMap(({ id }) => destinationIds.map((destinationId) => `${id} ${destinationId}`));
    };
    const connections = () =>
      new Promise<number>((resolve, reject) => {
        server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
      });
    /** Deliveries requested before a kill whose end was not known to be durable, summed over all kills. */
    let atRisk = 0;
    /** How often each delivery, durable before a kill, had been requested by then. */
    const durable = new Map<string, number>();
    for (let kill = 1; kill <= KILLS; kill += 1) {
      await waitFor(
        "what the last kill left to be recorded",
        async () => {
          for (const delivery of await readDurable())
            if (!durable.has(delivery)) durable.set(delivery, requestsOf.get(delivery) ?? 0);
          return durable.size >= arrivals.size * MAX_RECORDED;
        },
        120_000,
        500,
      );
      wanted = (EVENTS / (KILLS + 1)) * kill;
      const goal = arrivals.size + DELIVERIES / (KILLS + 1) / 2;
      await waitFor(`${goal} deliveries before kill ${kill}`, () => arrivals.size >= goal, 600_000);
      await relay.kill("SIGKILL");
      await waitFor("all that it had sent to be read", async () => (await connections()) === 0);
      for (const delivery of requestsOf.keys()) if (!durable.has(delivery)) atRisk += 1;
      await relay.start();
    }
    wanted = EVENTS;
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
    const again = [...durable].filter(([delivery, before]) => requestsOf.get(delivery) !== before);
    console.log(
      `${accepted.size} events to ${DESTINATIONS} destinations over ${KILLS} kills: ${requests} requests, ${duplicates} repeated, ${atRisk} whose end may not have been durable, ${durable.size} whose end was`,
    );
    expect(again).toEqual([]);
    expect(duplicates).toBeLessThanOrEqual(atRisk);
    server.closeAllConnections();
    server.close();
  },
  isLong ? 3_600_000 : 600_000,
);
