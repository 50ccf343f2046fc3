import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { waitFor } from "../support/wait-for.ts";
import { startArena, startArenaStores, type Arena, type ArenaStores } from "./harness/arena.ts";
import { BROKER_FAULTS, keepInflicting, NODE_FAULTS } from "./harness/faults.ts";
import { makeSeededRandom } from "./harness/random.ts";
import { chooseSeed, isLong, runTrial, type Trial } from "./harness/trial.ts";

const seed = chooseSeed();
const started: ArenaStores | Error = await startArenaStores(makeSeededRandom(seed)).catch(
  (error: Error) => error,
);

const CONCURRENCY = 16;
const ENDPOINTS = 12;
/** Tries in flight at all destinations of a process, and as many whose end is not durable yet. */
const ALLOWANCES = {
  duplicatesPerFault: CONCURRENCY * ENDPOINTS * 2,
  notDurableMs: 2_000,
  aftermathMs: 30_000,
};

describe.skipIf(started instanceof Error && skipOrFail("a cluster of processes", started))(
  "two processes of each role on three brokers, under fire",
  () => {
    const stores = started as ArenaStores;
    let arena: Arena;
    beforeAll(async () => {
      arena = await startArena(stores, {
        random: makeSeededRandom(seed),
        env: {
          RELAY_RETRY_BASE_MS: "250",
          RELAY_DELIVERY_TIMEOUT_MS: "4000",
          RELAY_DELIVERY_CONCURRENCY: String(CONCURRENCY),
          RELAY_MAX_PAYLOAD_BYTES: "16384",
          LOG_LEVEL: isLong ? "warn" : "info",
        },
      });
    }, 180_000);
    afterAll(async () => {
      console.log("warnings and errors of all processes:", arena?.cluster.complaints());
      await arena?.[Symbol.asyncDispose]();
      await stores[Symbol.asyncDispose]();
    }, 60_000);

    /** Faults of nodes and of brokers side by side, until so much was accepted and so much time has gone by. */
    async function fireAt({ sender, random, faults }: Trial, events: number, forMs: number) {
      const stopping = new AbortController();
      const { signal } = stopping;
      const common = { arena, random, windows: faults, signal };
      const inflicting = Promise.all([
        keepInflicting({ ...common, kinds: NODE_FAULTS, pauseMs: [500, 3_000] }),
        keepInflicting({ ...common, kinds: BROKER_FAULTS, pauseMs: [3_000, 10_000] }),
      ]);
      const endMs = performance.now() + forMs;
      await waitFor(
        "the load",
        () => sender.acceptedCount >= events && performance.now() > endMs,
        forMs + events * 50,
        200,
      ).finally(() => stopping.abort());
      await inflicting;
    }

    const plans = Array.from({ length: ENDPOINTS }, (_, index) =>
      index % 4 === 0
        ? [{ path: "/ok" }, { path: index % 8 === 0 ? "/slow/300" : "/flaky/10" }]
        : [{ path: "/ok" }],
    );

    it.skipIf(isLong)(
      "breaks no promise (I1–I3, I6–I8) while processes and brokers are killed, frozen and restarted at random",
      async () => {
        const { violations, summary } = await runTrial(arena, {
          name: "short",
          seed,
          destinations: plans,
          perSecond: 50,
          senders: 24,
          allowances: ALLOWANCES,
          sampleSize: 200,
          quietWithinMs: 120_000,
          disturb: (trial) => fireAt(trial, 500, 35_000),
        });
        console.log(`under fire: ${summary}`);
        expect(violations).toEqual([]);
      },
      400_000,
    );

    it.skipIf(!isLong)(
      "breaks no promise (I1–I3, I6–I8) over 100,000 events while processes and brokers are killed, frozen and restarted at random",
      async () => {
        const dying = [...plans, [{ path: "/ok" }, { path: "/dead", retries: 2 }]];
        const { violations, summary } = await runTrial(arena, {
          name: "long",
          seed,
          destinations: dying,
          perSecond: 600,
          senders: 96,
          allowances: ALLOWANCES,
          sampleSize: 2_000,
          quietWithinMs: 400_000,
          disturb: (trial) => fireAt(trial, 100_000, 60_000),
        });
        console.log(`under fire, long: ${summary}`);
        expect(violations).toEqual([]);
      },
      3_600_000,
    );
  },
);
