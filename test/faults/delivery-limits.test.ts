import { expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";
import { findRateBreaches } from "./harness/check-rate.ts";
import { isLong } from "./harness/is-long.ts";
import { startLedgerReceiverProcess } from "./harness/ledger-receiver.ts";

const BACKLOG = isLong ? 5_000 : 800;
/** `SIGTERM` is a graceful restart. */
const ENDS: readonly NodeJS.Signals[] = isLong
  ? Array.from({ length: 13 }, (_, index) => (index % 4 === 3 ? "SIGTERM" : "SIGKILL"))
  : ["SIGKILL", "SIGTERM", "SIGKILL"];
const LIMITS = [
  { name: "second", max: 10, windowMs: 1_000 },
  { name: "minute", max: 100, windowMs: 60_000 },
] as const;

it(
  `a backlog of ${BACKLOG} through ${ENDS.length} kills and restarts: no sliding window over 10/s or 100/min (I4)`,
  async () => {
    await using receiver = await startLedgerReceiverProcess();
    await using relay = await makeRelayProcess();
    await relay.start();
    const endpoint = await createGithubEndpoint(relay.client, "Limited");
    for (const { name, max } of LIMITS)
      await relay.client.destinations.create(endpoint.id, {
        name,
        receiver_url: `${receiver.url}/${name}`,
        rate_limit_max: max,
        rate_limit_window: name,
      });
    let accepted = 0;
    const send = async (): Promise<void> => {
      while (accepted < BACKLOG) {
        accepted += 1;
        const { status } = await postGithubWebhook(endpoint.url, JSON.stringify({ n: accepted }));
        expect(status).toBe(200);
      }
    };
    await Promise.all(Array.from({ length: 8 }, send));
    const arrivals = (name: string) => receiver.received.filter(({ path }) => path === `/${name}`);
    for (const signal of ENDS) {
      const before = arrivals("second").length;
      await waitFor("deliveries go on", () => arrivals("second").length >= before + 15, 120_000);
      await relay.kill(signal);
      await relay.start();
    }
    const before = arrivals("second").length;
    await waitFor(
      "deliveries after it all",
      () => arrivals("second").length > before + 15,
      120_000,
    );
    // The per-minute limit lets the next requests through once its window has passed, however often the process was killed.
    await waitFor("the minute to be used", () => arrivals("minute").length >= 95, 240_000, 200);

    for (const { name, max, windowMs } of LIMITS) {
      const requests = arrivals(name);
      console.log(`${name}: ${requests.length} requests`);
      expect(findRateBreaches(requests, { max, windowMs }), name).toEqual([]);
    }
  },
  isLong ? 1_800_000 : 600_000,
);
