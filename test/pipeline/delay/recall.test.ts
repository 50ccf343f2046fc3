import { describe, expect, it } from "vitest";
import { Recall } from "../../../src/pipeline/delay/recall.ts";
import type { RecallPorts } from "../../../src/pipeline/delay/recall.ts";
import type { TierForwarder } from "../../../src/pipeline/delay/tier-forwarder.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";

const HOUR_MS = 3_600_000;

/** Two destinations that ask to be tried again in an hour, and were asked once. */
async function waitingWorld(answersAfterMs = 5) {
  const world = new SimWorld();
  for (const id of ["dst_1", "dst_2"]) {
    world.configure(id);
    world.behave(id, () => ({ afterMs: answersAfterMs, reply: answer(503, "", "3600") }));
  }
  const process = await world.start("first");
  world.ingest();
  await world.clock.advance(1_000);
  const rowsOf = (id: string) =>
    world.attempts().filter(({ destinationId }) => destinationId === id);
  const statusesOf = (id: string) => rowsOf(id).map(({ status }) => status);
  return { world, process, rowsOf, statusesOf };
}

describe("tasks that wait for a destination that is deleted", () => {
  it("regression: end within seconds: they ended when their time came, hours later", async () => {
    const { world, statusesOf } = await waitingWorld();
    world.remove("dst_1");
    await world.clock.advance(5_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2")).toEqual(["failed"]);
    await world.clock.advance(2 * HOUR_MS);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2").length).toBeGreaterThan(1);
    expect(world.requestsTo("dst_1")).toHaveLength(1);
    expect(world.errors).toEqual([]);
  });

  it("end within a minute also where a try was in flight at the deletion", async () => {
    const { world, statusesOf } = await waitingWorld(10_000);
    world.remove("dst_1");
    await world.clock.advance(60_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
  });

  it("end once, by the step of their row, when an owner that knows nothing of it finds them again", async () => {
    const { world, process, rowsOf } = await waitingWorld();
    world.remove("dst_1");
    await world.clock.advance(60_000);
    await world.stop(process);
    await world.start("second");
    await world.clock.advance(2 * HOUR_MS);
    const ends = rowsOf("dst_1").filter(({ status }) => status === "dead");
    const steps = ends.map(({ run, tryNumber, deferral }) => `${run}/${tryNumber}/${deferral}`);
    expect(new Set(steps).size).toBe(1);
    expect(world.requestsTo("dst_1")).toHaveLength(1);
  });

  it("are asked for by endpoint when that is deleted, and not when it changes", async () => {
    const clock = new SimClock();
    const recalled: string[] = [];
    const deleted = new Set<string>();
    const listeners: Parameters<RecallPorts["destinations"]["onChange"]>[0][] = [];
    const tier = {
      recall: async (of: ReadonlySet<string>, isGone: (id: string) => Promise<boolean>) => {
        recalled.push(`${[...of].join(" ")} ${await isGone("dst_1")}`);
      },
    } as unknown as TierForwarder;
    const recall = new Recall({
      clock,
      logger: makeSilentLogger(),
      destinations: {
        onChange: (listener) => {
          listeners.push(listener);
          return () => void listeners.pop();
        },
        destinationsOf: (id) =>
          deleted.has(id) ? { kind: "missing" } : { kind: "found", value: [] },
        destination: async () => ({ kind: "missing" }),
      },
      tiersOf: () => [tier],
    });
    recall.start();
    listeners[0]!({ endpointId: "ep_1", destinationId: null });
    await clock.advance(60_000);
    expect(recalled).toEqual([]);
    for (const endpointId of ["ep_1", "ep_2"]) {
      deleted.add(endpointId);
      listeners[0]!({ endpointId, destinationId: null });
    }
    await clock.advance(10_000);
    // Once for both: it reads all that waits.
    expect(recalled).toEqual(["ep_1 ep_2 true"]);
    recall.stop();
    await clock.advance(60_000);
    expect(recalled).toHaveLength(1);
    expect(listeners).toEqual([]);
  });
});
