import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NODE_NAMES } from "../support/cluster.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { startArena, startArenaStores, type Arena, type ArenaStores } from "./harness/arena.ts";
import { findDuplicates } from "./harness/check-invariants.ts";
import { endNode, inflict } from "./harness/faults.ts";
import { makeSeededRandom } from "./harness/random.ts";
import { isLong } from "./harness/is-long.ts";
import { chooseSeed, runTrial } from "./harness/trial.ts";

const seed = chooseSeed();
const started: ArenaStores | Error | null = isLong
  ? await startArenaStores(makeSeededRandom(seed)).catch((error: Error) => error)
  : null;

const PER_SECOND = 500;
const MAX_REPEATED = 0.001;
const BETWEEN_MS = 5_000;
const ALLOWANCES = { duplicatesPerFault: 100, notDurableMs: 2_000, aftermathMs: 30_000 };

/** The short form, which runs beside the other suites at a lower rate, is in cluster.test.ts. */
describe.skipIf(
  !isLong || (started instanceof Error && skipOrFail("a cluster of processes", started)),
)("a rolling restart at 500 events a second", () => {
  const stores = started as ArenaStores;
  let arena: Arena;
  beforeAll(async () => {
    arena = await startArena(stores, {
      random: makeSeededRandom(seed),
      env: { RELAY_MAX_PAYLOAD_BYTES: "16384" },
    });
  }, 180_000);
  afterAll(async () => {
    await arena?.[Symbol.asyncDispose]();
    await stores?.[Symbol.asyncDispose]();
  }, 60_000);

  it("ends every process by SIGTERM in turn: every request answered or reset, at most one delivery in a thousand repeated", async () => {
    const { violations, summary, ledgers } = await runTrial(arena, {
      name: "rolling",
      seed,
      destinations: Array.from({ length: 12 }, () => [{ path: "/ok" }]),
      perSecond: PER_SECOND,
      senders: 64,
      allowances: ALLOWANCES,
      sampleSize: 200,
      quietWithinMs: 120_000,
      disturb: async ({ faults }) => {
        await delay(BETWEEN_MS);
        for (const name of NODE_NAMES) {
          await inflict(endNode(arena, name), faults);
          await delay(BETWEEN_MS);
        }
      },
    });
    console.log(`rolling restart: ${summary}`);
    expect(violations).toEqual([]);
    const repeated = findDuplicates(ledgers.received).length;
    expect(repeated / ledgers.received.length).toBeLessThanOrEqual(MAX_REPEATED);
    const unanswered = ledgers.sent.filter(({ status }) => status === null);
    const reasons = new Set(unanswered.map(({ reason }) => reason));
    expect([...reasons].filter((one) => !/ECONNRE|UND_ERR_SOCKET/.test(one))).toEqual([]);
  }, 600_000);
});
