// What one webhook to many destinations costs the webhooks of other endpoints, against the built program in its own process with
// embedded stores: 50 webhooks a second to an endpoint with one destination, alone, and while others go to an endpoint with many.
import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startChild } from "../test/support/child-process.ts";
import { createGithubEndpoint, postGithubWebhook } from "../test/support/github-webhook.ts";
import { makeRelayProcess } from "../test/support/relay-process.ts";
import { startAnsweringReceivers } from "./lib/answering-receivers.ts";
import { readNumbers } from "./lib/read-options.ts";
import { countAttempts } from "./lib/relay-figures.ts";
import { percentile } from "./lib/stats.ts";

const USAGE =
  "node scripts/build.js && npx tsx bench/wide-fan-out.ts [destinations, default 1000] [rounds, default 5]";
const PERIOD_MS = 20;
const ALONE_MS = 4_000;
/** Lets everything settle after a round: what is recorded, and connections that are closed. */
const REST_MS = 2_500;
/** Webhooks to the endpoint with many destinations, one after the other, in one round and the next. */
const WEBHOOKS = [1, 5];
const BODY = JSON.stringify({ ref: "refs/heads/main", filler: "x".repeat(900) });

if (process.argv[2] === "receiver") process.send?.(await startAnsweringReceivers(1));
else {
  const given = readNumbers(USAGE, { destinations: "1000", rounds: "5" });
  await runBench(Number(given.destinations), Number(given.rounds));
}

async function runBench(destinations: number, rounds: number): Promise<void> {
  await using receiver = await startChild<number[]>(
    fileURLToPath(import.meta.url),
    ["receiver"],
    ["--import", "tsx"],
  );
  await using relay = await makeRelayProcess();
  await relay.start();
  const { client } = relay;

  /** Makes an endpoint with so many destinations; returns its URL. */
  async function makeEndpoint(name: string, count: number): Promise<string> {
    const endpoint = await createGithubEndpoint(client, name);
    for (let index = 0; index < count; index += 1)
      await client.destinations.create(endpoint.id, {
        name: `${name} ${index}`,
        receiver_url: `http://127.0.0.1:${receiver.ready[0]}/${name}/${index}`,
      });
    return endpoint.url;
  }

  /** Sends one webhook; returns how long its answer took, ms. */
  async function send(url: string): Promise<number> {
    const startedMs = performance.now();
    const { status } = await postGithubWebhook(url, BODY);
    if (status !== 200) throw new Error(`a webhook was answered ${status}`);
    return performance.now() - startedMs;
  }

  const countDelivered = (): Promise<number> => countAttempts(relay, "delivered");

  /** Sends webhooks to an endpoint with one destination until `work` has ended; prints how long their answers took. */
  async function beside(
    label: string,
    work: (sent: () => number) => Promise<string>,
  ): Promise<void> {
    const sent: Promise<number>[] = [];
    const sender = setInterval(() => sent.push(send(narrow)), PERIOD_MS);
    const done = await work(() => sent.length);
    clearInterval(sender);
    const tookMs = (await Promise.all(sent)).sort((a, b) => a - b);
    const [p50, p99] = [0.5, 0.99].map((share) => percentile(tookMs, share).toFixed(0));
    console.log(
      `${label}: p50 ${p50} ms, p99 ${p99} ms (${tookMs.length})${done}; load ${loadavg()[0]?.toFixed(1)}`,
    );
  }

  const narrow = await makeEndpoint("narrow", 1);
  const wide = await makeEndpoint("wide", destinations);
  await beside("alone", async () => {
    await delay(ALONE_MS);
    return "";
  });
  for (let round = 0; round < rounds; round += 1) {
    const webhooks = WEBHOOKS[round % WEBHOOKS.length]!;
    await beside(`beside ${webhooks} to ${destinations}`, async (sent) => {
      const startedMs = performance.now();
      const wanted = (await countDelivered()) + webhooks * destinations;
      for (let count = 0; count < webhooks; count += 1) await send(wide);
      while ((await countDelivered()) < wanted + sent()) await delay(50);
      return `, delivered in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`;
    });
    await delay(REST_MS);
  }
}
