// How fast `relay replay` enqueues again what died at one destination, against the built program in its own process with embedded
// stores: webhooks of 1 KB whose deliveries are refused, then the command, until it ends and until all are delivered.
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { startChild } from "../test/support/child-process.ts";
import { createGithubEndpoint, postGithubWebhook } from "../test/support/github-webhook.ts";
import { makeRelayProcess, runRelay } from "../test/support/relay-process.ts";
import { freePorts } from "../test/support/stores/free-port.ts";
import { waitFor } from "../test/support/wait-for.ts";
import { startAnsweringReceivers } from "./lib/answering-receivers.ts";
import { readNumbers } from "./lib/read-options.ts";
import { countAttempts, cpuMsOf } from "./lib/relay-figures.ts";

const USAGE =
  "node scripts/build.js && npx tsx bench/replay.ts [events, default 2000] [rounds, default 3]";
const BODY = JSON.stringify({ ref: "refs/heads/main", filler: "x".repeat(900) });
const AT_ONCE = 16;
const PATIENCE_MS = 120_000;
const POLL_MS = 100;

if (process.argv[2] === "receiver") process.send?.(await startAnsweringReceivers(1));
else {
  const given = readNumbers(USAGE, { events: "2000", rounds: "3" });
  await runBench(Number(given.events), Number(given.rounds));
}

async function runBench(events: number, rounds: number): Promise<void> {
  await using receiver = await startChild<number[]>(
    fileURLToPath(import.meta.url),
    ["receiver"],
    ["--import", "tsx"],
  );
  const [closed] = await freePorts(1);
  await using relay = await makeRelayProcess();
  await relay.start();
  const { client } = relay;
  const urlOf = (port: number | undefined): string => `http://127.0.0.1:${port}/hook`;
  const count = (status: string): Promise<number> => countAttempts(relay, status);
  const until = (what: string, isSo: () => Promise<boolean>): Promise<boolean> =>
    waitFor(what, isSo, PATIENCE_MS, POLL_MS);

  for (let round = 1; round <= rounds; round += 1) {
    const endpoint = await createGithubEndpoint(client, `Replay ${round}`);
    const destination = await client.destinations.create(endpoint.id, {
      name: "Replay",
      receiver_url: urlOf(closed),
      retry_max_attempts: 0,
    });
    const [diedBefore, deliveredBefore] = [await count("dead"), await count("delivered")];
    for (let sent = 0; sent < events; sent += AT_ONCE) {
      const group = Array.from({ length: Math.min(AT_ONCE, events - sent) }, () =>
        postGithubWebhook(endpoint.url, BODY),
      );
      for (const { status } of await Promise.all(group))
        if (status !== 200) throw new Error(`a webhook was answered ${status}`);
    }
    await until("what dies", async () => (await count("dead")) >= diedBefore + events);
    await client.destinations.update(destination.id, { receiver_url: urlOf(receiver.ready[0]) });
    await until("what is found", async () => {
      const filter = { destination_id: destination.id, attempt_status: "dead", limit: 1 } as const;
      return (await client.events.search(filter)).pagination.total === events;
    });
    const run = async (...more: string[]): Promise<string> => {
      const { code, stderr } = await runRelay(
        ["replay", "--destination", destination.id, ...more],
        relay.env,
      );
      if (code !== 0) throw new Error(stderr);
      return stderr.trim();
    };
    const foundMs = performance.now();
    await run("--dry-run");
    const [startedMs, usedMs] = [performance.now(), cpuMsOf(relay)];
    const told = await run();
    const seconds = (performance.now() - startedMs) / 1_000;
    await until("deliveries", async () => (await count("delivered")) >= deliveredBefore + events);
    const untilDelivered = (performance.now() - startedMs) / 1_000;
    const each = (cpuMsOf(relay) - usedMs) / events;
    console.log(
      `${events} found in ${((startedMs - foundMs) / 1_000).toFixed(1)} s, replayed in ${seconds.toFixed(1)} s (${(events / seconds).toFixed(0)}/s), delivered after ${untilDelivered.toFixed(1)} s; CPU of the relay ${each.toFixed(1)} ms each; load ${loadavg()[0]?.toFixed(1)}: ${told}`,
    );
  }
}
