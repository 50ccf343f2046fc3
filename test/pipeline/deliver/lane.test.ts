import { expect, it } from "vitest";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { IntakeBudget } from "../../../src/pipeline/deliver/bounds/intake-budget.ts";
import { SendGate } from "../../../src/pipeline/deliver/bounds/send-gate.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../../../src/pipeline/deliver/delivery-options.ts";
import { Lane } from "../../../src/pipeline/deliver/lane/lane.ts";
import type { LaneHost } from "../../../src/pipeline/deliver/lane/lane-host.ts";
import type { DeferralReason } from "../../../src/pipeline/deliver/ports.ts";
import type { Reply } from "../../../src/domain/outbound-request.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";

const OPEN_MS = 10_000;

it("regression: what waits in a lane while its circuit is open is put off even if that ends in the same moment: it was lost until the next owner", async () => {
  const world = new SimWorld();
  const config = world.configure("dst_1");
  const breaker = {
    failures: 1,
    minStreakMs: 0,
    minNewRunsMs: 0,
    openMs: OPEN_MS,
    maxOpenMs: OPEN_MS,
  };
  let steadyMs = 0;
  let stepMs = 0;
  let isOwned = true;
  let reply: (reply: Reply) => void = () => undefined;
  const putOff: DeferralReason[] = [];
  const host = {
    clock: world.clock,
    options: {
      ...DEFAULT_DELIVERY_OPTIONS,
      ownerId: "a",
      version: "0.0.0",
      concurrency: 1,
      breaker,
    },
    // Time passes between two looks at it.
    steadyNow: () => (steadyMs += stepMs),
    assignedSteadyMs: steadyMs,
    limits: { get: () => null, areComplete: true, late: async () => null },
    gate: new SendGate({ max: 10, maxPerReceiver: 10 }, () => undefined),
    budget: new IntakeBudget(1_000_000),
    mayStart: () => isOwned,
    endIfOver: () => false,
    lookUp: () => ({ kind: "found", value: config }),
    makeTry: () =>
      new Promise<Reply>((resolve) => {
        reply = resolve;
      }),
    putOff: (_task, _config, reason) => putOff.push(reason),
    onCircuit: () => undefined,
    onQueued: () => undefined,
  } as Partial<LaneHost> as LaneHost;
  const lane = new Lane("dst_1", host);
  for (let count = 0; count < 4; count += 1)
    lane.offer(firstTry(world.makeEvent(), "dst_1", world.clock.now()), config);
  isOwned = false;
  reply(answer(500));
  await world.clock.advance(0);
  expect({ isOpen: lane.isCircuitOpen, queued: lane.queued }).toEqual({ isOpen: true, queued: 3 });
  isOwned = true;
  steadyMs = OPEN_MS - 2;
  stepMs = 1;
  lane.pump();
  expect(lane.queued).toBe(0);
  expect(putOff).toEqual(Array(3).fill("circuit_open"));
});
