import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startDemoReceiver } from "../../src/cli/demo/receiver.ts";
import { findDifferences } from "../../src/cli/demo/report.ts";
import { runScenario } from "../../src/cli/demo/scenario.ts";
import {
  findOverlaps,
  startLedgerReceiver,
  type LedgerReceiver,
} from "../support/cluster-receiver.ts";
import {
  countWrongBodies,
  findWrongPayloads,
  makeRoute,
  startTraffic,
  waitForDeliveries,
  waitUntilListed,
  type Route,
  type Traffic,
} from "../support/cluster-traffic.ts";
import {
  healCluster,
  NODE_NAMES,
  startCluster,
  startClusterStores,
  type Cluster,
  type ClusterStores,
} from "../support/cluster.ts";
import { makeRelayProcess } from "../support/relay-process.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { waitFor } from "../support/wait-for.ts";
import { isLong } from "./harness/is-long.ts";

const started: ClusterStores | Error = await startClusterStores().catch((error: Error) => error);

/** Long enough to reveal an overlap of two senders, short enough not to slow the load down. */
const HOLD_MS = 20;
const PER_SECOND = 80;
/** The long form's rate is half of what seven processes, three brokers and the load reach together on two cores. */
const RESTARTS_PER_SECOND = isLong ? 100 : PER_SECOND;
const RESTART_EVERY = isLong ? 1_000 : 100;
const MAX_REPEATED = 0.001;
const PARTITIONS = 6;

describe.skipIf(started instanceof Error && skipOrFail("a cluster of processes", started))(
  "two ingest, two delivery and one API process on three brokers, PostgreSQL and ClickHouse",
  () => {
    const stores = started as ClusterStores;
    let cluster: Cluster;
    let receiver: LedgerReceiver;
    let route: Route;
    beforeAll(async () => {
      cluster = await startCluster(stores, {
        RELAY_RETRY_BASE_MS: "250",
        RELAY_DELIVERY_TIMEOUT_MS: "8000",
        RELAY_DELIVERY_CONCURRENCY: "16",
        RELAY_PARTITIONS: String(PARTITIONS),
      });
      receiver = await startLedgerReceiver({
        holdMs: HOLD_MS,
        senderPids: () => [cluster.node("delivery-1").pid(), cluster.node("delivery-2").pid()],
      });
      route = await makeRoute(cluster.client, receiver);
    }, 180_000);
    beforeEach(() => healCluster(stores, cluster), 240_000);
    afterAll(async () => {
      console.log("warnings and errors of all processes:", cluster.complaints());
      await cluster[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
      await stores[Symbol.asyncDispose]();
    }, 60_000);

    /** Expects everything answered 2xx to be delivered and listed, with its bytes intact (I1, I2, I6). */
    async function expectNothingLost(
      traffic: Traffic,
      every: number,
    ): Promise<{ readonly summary: string; readonly repeatedShare: number }> {
      const { requests, repeated } = await waitForDeliveries(traffic, receiver);
      expect(countWrongBodies(traffic, receiver)).toBe(0);
      await waitUntilListed(traffic, cluster.client);
      expect(await findWrongPayloads(traffic, cluster.client, every)).toEqual([]);
      const { by_attempt_status: attempts } = await cluster.client.events.facets({
        from: traffic.since,
      });
      const byStatus = attempts.map(({ value, count }) => `${value} ${count}`).join(", ");
      const summary = `${traffic.accepted.size} answered 2xx, all delivered and listed; other answers ${JSON.stringify(traffic.refused)}; ${requests} requests at the receiver, ${repeated} of them repeated; attempts recorded: ${byStatus}`;
      return { summary, repeatedShare: repeated / requests };
    }

    const more = async (traffic: Traffic, count: number): Promise<void> => {
      const from = traffic.accepted.size;
      await waitFor("more load", () => traffic.accepted.size >= from + count, 60_000);
    };

    it("comes through the demo's scenario as one process does", async () => {
      await using demo = await startDemoReceiver();
      const result = await runScenario(cluster.client, demo, new AbortController().signal);
      expect(findDifferences(result)).toEqual([]);
      const genuine = result.sent.find(({ forged }) => !forged);
      const id = genuine?.eventId ?? "";
      const before = demo.deliveries.length;
      const { enqueued } = await cluster.client.events.replay(id);
      await waitFor("the replay", () => demo.deliveries.length >= before + enqueued.length);
      expect(demo.deliveries.at(-1)?.headers["x-relay-trigger"]).toBe("replay");
    }, 90_000);

    it("regression: a relay with another database does not start on the same topics: it took half of the webhooks, and dropped them without a word", async () => {
      await using traffic = startTraffic(route, PER_SECOND);
      await more(traffic, 20);
      await traffic.stop();
      await waitForDeliveries(traffic, receiver);
      const { env } = cluster.node("delivery-1");
      // Without DATABASE_URL it has a database of its own.
      const shared = ["KAFKA_BROKERS", "RELAY_TOPIC_PREFIX", "CLICKHOUSE_URL"] as const;
      await using stranger = await makeRelayProcess(
        Object.fromEntries(shared.map((name) => [name, env[name] ?? ""])),
        ["--roles", "delivery"],
      );
      await expect(stranger.start()).rejects.toThrow(
        /ended \(2\)[^]*relay: the topics that begin with \S+ belong to a relay with another database, which runs: set RELAY_TOPIC_PREFIX/,
      );
    }, 120_000);

    it("loses nothing when one process of each role and one broker are killed (-9) under load", async () => {
      await using traffic = startTraffic(route, PER_SECOND);
      await more(traffic, 300);
      for (const name of ["ingest-1", "delivery-1", "api"] as const) {
        await cluster.node(name).kill("SIGKILL");
        await more(traffic, 200);
        await cluster.restart(name);
      }
      await stores.kafka.kill(2);
      await more(traffic, 200);
      await stores.kafka.restart(2);
      await more(traffic, 300);
      await traffic.stop();
      const { summary } = await expectNothingLost(traffic, 5);
      console.log(`kill -9: ${summary}`);
    }, 300_000);

    it("restarts every process by SIGTERM under load: exit 0, every request answered or its connection reset", async () => {
      const startedMs = performance.now();
      await using traffic = startTraffic(route, RESTARTS_PER_SECOND);
      await more(traffic, 200);
      for (const name of NODE_NAMES) {
        expect(await cluster.node(name).kill("SIGTERM")).toBe(0);
        await more(traffic, RESTART_EVERY);
        await cluster.restart(name);
      }
      await more(traffic, 100);
      await traffic.stop();
      const perSecond = (traffic.accepted.size * 1_000) / (performance.now() - startedMs);
      const { summary, repeatedShare } = await expectNothingLost(traffic, 20);
      console.log(`rolling SIGTERM at ${perSecond.toFixed(0)} a second: ${summary}`);
      // When other suites run beside this one, the receiver may stall for longer than a rebalance waits.
      if (isLong) expect(repeatedShare).toBeLessThanOrEqual(MAX_REPEATED);
      const unanswered = Object.keys(traffic.refused).filter(
        (reason) => !["503", "ECONNRESET", "ECONNREFUSED", "UND_ERR_SOCKET"].includes(reason),
      );
      expect(unanswered).toEqual([]);
    }, 300_000);

    let partitions = PARTITIONS;

    it("grows by 6 partitions under load: nothing lost, no destination served by two processes at once", async () => {
      const from = receiver.entries.length;
      await using traffic = startTraffic(route, PER_SECOND);
      await more(traffic, 200);
      // If the test is retried, start from the partitions that its first run left.
      const grownFrom = partitions;
      partitions += 6;
      cluster.setEnv("RELAY_PARTITIONS", String(partitions));
      for (const name of NODE_NAMES) {
        expect(await cluster.node(name).kill("SIGTERM")).toBe(0);
        await cluster.restart(name);
        await more(traffic, 100);
      }
      // The other processes look for new partitions every 30 s: the load continues until the last of them must have looked.
      const endMs = performance.now() + 35_000;
      await waitFor("every process to see the growth", () => performance.now() > endMs, 40_000);
      await traffic.stop();
      const { summary } = await expectNothingLost(traffic, 20);
      const overlaps = findOverlaps(receiver.entries.slice(from));
      const unknown = receiver.entries
        .slice(from)
        .filter(({ senderPid }) => senderPid === null).length;
      console.log(
        `growth ${grownFrom} → ${partitions}: ${summary}; ${overlaps.length} overlaps of two owners; ${unknown} requests of unknown sender`,
      );
      expect(overlaps).toEqual([]);
    }, 300_000);
  },
);
