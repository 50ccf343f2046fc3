import { expect, it } from "vitest";
import { FANOUT_LATER, firstTry } from "../../../src/domain/delivery-task.ts";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import type { LogRecord } from "../../../src/domain/log.ts";
import type { LimitPace } from "../../../src/domain/rate-limit.ts";
import { addWaiting, inAllTiers, movedOn } from "../../../src/pipeline/delay/waiting-tasks.ts";
import type { WaitingTasks } from "../../../src/pipeline/delay/waiting-tasks.ts";
import { decodeTask, encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { SimWorld } from "../../support/sim-world.ts";

const NOW_MS = Date.UTC(2026, 0, 1);
const MANY_IN_LONG: LimitPace = { perHour: 1_000, windowMs: 86_400_000 };
const FEW_IN_SHORT: LimitPace = { perHour: 10, windowMs: 60_000 };
const world = new SimWorld();

interface Waiting extends Partial<DeliveryTask> {
  readonly key?: string;
}

function recordOf(offset: number, { key = "ep_1", ...changes }: Waiting = {}): LogRecord {
  const task = { ...firstTry(world.makeEvent(), "dst_1", NOW_MS), ...changes };
  const at = { topic: "delay-1h", partition: 3, offset, key, appendedAtMs: NOW_MS } as const;
  return { ...at, value: encodeTask(task) };
}

function waitingIn(records: readonly LogRecord[], ids: ReadonlySet<string> | null = null) {
  const found = new Map<string, WaitingTasks>();
  addWaiting(found, records, ids);
  return found;
}

it("what waits for a destination is known by its lowest rate, its longest window and its last times, in whichever order it came", () => {
  const many = { limitedBy: MANY_IN_LONG, dueAtMs: NOW_MS + 9_000 };
  const few = { limitedBy: FEW_IN_SHORT, dueAtMs: NOW_MS + 5_000 };
  const failing = { putOffByReceiverAtMs: NOW_MS - 1_000, dueAtMs: NOW_MS + 7_000 };
  const failedBefore = { putOffByReceiverAtMs: NOW_MS - 3_000, dueAtMs: NOW_MS + 6_000 };
  // Waits longest, but neither for a limit nor for the receiver.
  const retry = { dueAtMs: NOW_MS + 90_000 };
  const expected = {
    slowest: { perHour: 10, windowMs: 86_400_000 },
    limitedUntilMs: NOW_MS + 9_000,
    receiverUntilMs: NOW_MS + 7_000,
    receiverSinceMs: NOW_MS - 3_000,
    endpointId: "ep_1",
    lastOffset: 7,
  };
  for (const tasks of [
    [many, failing, few, failedBefore, retry],
    [few, failedBefore, retry, many, failing],
  ]) {
    const records = tasks.map((task, index) => recordOf(3 + index, task));
    expect(waitingIn(records)).toEqual(new Map([["dst_1", expected]]));
  }
  const tiers = [[many], [few, failedBefore], [retry], [failing]].map((tasks) =>
    waitingIn(tasks.map((t) => recordOf(1, t))),
  );
  const { slowest, limitedUntilMs, receiverUntilMs, receiverSinceMs } = expected;
  for (const order of [tiers, tiers.toReversed()])
    expect(inAllTiers(order).get("dst_1")).toMatchObject({
      slowest,
      limitedUntilMs,
      receiverUntilMs,
      receiverSinceMs,
    });
});

it("other endpoints, fan-outs still to be made and what cannot be read are no destination's", () => {
  const records = [
    recordOf(0, { key: "ep_2", destinationId: "dst_2" }),
    recordOf(1, { destinationId: FANOUT_LATER }),
    { ...recordOf(2), value: Buffer.from("of a newer relay") },
    recordOf(3),
  ];
  expect([...waitingIn(records, new Set(["ep_1"])).keys()]).toEqual(["dst_1"]);
  expect([...waitingIn(records).keys()]).toEqual(["dst_2", "dst_1"]);
});

it("a recall sends the tasks of deleted destinations as they are, and those of raised limits and mended receivers soon; all others wait as long as before", () => {
  const waits = { dueAtMs: NOW_MS + 70_000, deferrals: 2 };
  const limited = { ...waits, limitedBy: FEW_IN_SHORT };
  const failing = { ...waits, putOffByReceiverAtMs: NOW_MS - 1_000 };
  const move = (
    waiting: Waiting,
    pace: LimitPace | null,
    gone: readonly string[] = [],
    mended: readonly string[] = [],
  ) => {
    const sooner = new Map(pace === null ? [] : [["dst_1", pace]]);
    const recalled = { gone: new Set(gone), sooner, mended: new Set(mended) };
    const moved = movedOn(recordOf(0, waiting), recalled, NOW_MS);
    expect(moved).toMatchObject({ key: "ep_1", partition: 3 });
    const { dueAtMs, deferrals } = decodeTask(moved.value);
    return { topic: moved.topic, dueAtMs, deferrals };
  };
  const left = { topic: "delay-1m", dueAtMs: NOW_MS + 70_000, deferrals: 2 };
  expect(move(limited, MANY_IN_LONG, ["dst_1"])).toEqual({ ...left, topic: "tasks" });
  const now = { topic: "tasks", dueAtMs: NOW_MS, deferrals: 3 };
  expect(move(limited, MANY_IN_LONG)).toEqual(now);
  const soon = { topic: "delay-1s", dueAtMs: NOW_MS + 2_000, deferrals: 3 };
  expect(move(failing, null, [], ["dst_1"])).toEqual(soon);
  // No limit put it off; its limit was not changed; it already waits for a limit as fast.
  expect(move(waits, MANY_IN_LONG)).toEqual(left);
  expect(move(limited, null, ["dst_2"])).toEqual(left);
  expect(move(limited, FEW_IN_SHORT)).toEqual(left);
  // Its receiver is the same; the receiver is another one, but did not put it off.
  expect(move(failing, MANY_IN_LONG, [], ["dst_2"])).toEqual(left);
  expect(move(waits, null, [], ["dst_1"])).toEqual(left);
});
