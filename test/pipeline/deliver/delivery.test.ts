import { describe, expect, it, vi } from "vitest";
import type { NewRecord, Urgency } from "../../../src/domain/log.ts";
import { PartitionLanes } from "../../../src/pipeline/deliver/partition/partition-lanes.ts";
import { decodeOutcome } from "../../../src/pipeline/log/outcome-codec.ts";
import { firstTryOfReplay } from "../../../src/domain/delivery-task.ts";
import { NOT_DELIVERED_IN_RETENTION } from "../../../src/pipeline/deliver/try/dead-reasons.ts";
import { decodeTask, encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { beforeRouting } from "../../support/before-routing.ts";
import { answer, FAIL, HANG, OK, QUICK_BREAKER, SimWorld } from "../../support/sim-world.ts";

const HOUR = 3_600_000;

/** Says what a call of the appender is about. */
function subjectOf(records: readonly NewRecord[]): string {
  const state = records.find(({ topic }) => topic === "held" || topic === "limits");
  if (state !== undefined) return state.topic;
  const end = records.find(({ topic }) => topic === "attempts");
  if (end === undefined) return "put off or moved on";
  const outcome = decodeOutcome(end.value);
  return outcome.kind === "attempt" ? outcome.attempt.status : outcome.kind;
}

describe("delivery", () => {
  it("delivers an accepted event once to each active destination and records it", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.configure("dst_2");
    world.configure("dst_paused", { status: "paused" });
    await world.start();
    const event = world.ingest();
    await world.clock.advance(500);
    expect(world.seen.map((seen) => seen.destinationId).sort()).toEqual(["dst_1", "dst_2"]);
    expect(world.attempts().map(({ status, httpStatus }) => [status, httpStatus])).toEqual([
      ["delivered", 200],
      ["delivered", 200],
    ]);
    expect(world.outcomes().filter((outcome) => outcome.kind === "fanout")).toMatchObject([
      { eventId: event.id, destinationIds: ["dst_1", "dst_2"], run: "event" },
    ]);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
    expect(world.errors).toEqual([]);
  });

  it("counts every record that it cannot read, by topic: what something else wrote was left out with a log line alone", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    const foreign = Buffer.from("foreign");
    // Those of `attempts` and `held` are read as the owner begins, the others as they come.
    const topics = ["attempts", "held", "events", "tasks"] as const;
    world.store.write(topics.map((topic) => ({ topic, key: "ep_1", value: foreign })));
    await world.start();
    world.ingest();
    await world.clock.advance(5_000);
    expect(world.unreadable.toSorted()).toEqual(topics.toSorted());
    expect(world.errors).toMatchObject(
      world.unreadable.map((topic) => ({ message: "log.record_unreadable", fields: { topic } })),
    );
    expect(world.requestsTo("dst_1")).toHaveLength(1);
  });

  it("regression: an error in routing a record does not complete it: it was taken for one that cannot be read, and its event lost", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    const first = await world.start();
    world.ingest();
    await world.clock.advance(500);
    const broken = vi.spyOn(PartitionLanes.prototype, "route").mockImplementationOnce(() => {
      throw new Error("a bug");
    });
    world.ingest();
    world.ingest();
    await world.clock.advance(60_000);
    broken.mockRestore();
    expect(world.errors).toMatchObject([
      {
        message: "delivery.record_not_routed",
        fields: { topic: "events", offset: 1, err: { message: "a bug" } },
      },
    ]);
    expect(world.requestsTo("dst_1")).toHaveLength(2);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
    await world.stop(first);
    await world.start("b");
    await world.clock.advance(60_000);
    expect(world.requestsTo("dst_1")).toHaveLength(3);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(3);
  });

  it("regression: records that cannot be routed leave the others of their partition their room", async () => {
    const world = new SimWorld({ partitions: 1, delivery: { maxPendingBytes: 4 * 1_048_576 } });
    for (const id of ["dst_1", "dst_2"]) world.configure(id, { endpointId: `ep_${id}` });
    await world.start();
    const mend = beforeRouting(({ destinationId }) => {
      if (destinationId === "dst_1") throw new Error("a bug");
    });
    for (let count = 0; count < 20; count += 1)
      world.ingest({ endpointId: "ep_dst_1", body: Buffer.alloc(100 * 1_024) });
    await world.clock.advance(1_000);
    world.ingest({ endpointId: "ep_dst_2" });
    await world.clock.advance(1_000);
    mend();
    expect(world.requestsTo("dst_2")).toHaveLength(1);
    expect(world.errors).toHaveLength(20);
  });

  it("regression: an error in routing after the configuration was waited for leaves the record open as well: it ended the process", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    const first = await world.start();
    world.configKind = "async";
    const broken = vi.spyOn(PartitionLanes.prototype, "route").mockImplementationOnce(() => {
      throw new Error("a bug");
    });
    world.ingest();
    await world.clock.advance(60_000);
    broken.mockRestore();
    expect(world.errors).toMatchObject([
      { message: "delivery.work_failed", fields: { err: { message: "a bug" } } },
    ]);
    expect(world.requestsTo("dst_1")).toHaveLength(0);
    await world.stop(first);
    await world.start("b");
    await world.clock.advance(60_000);
    expect(world.requestsTo("dst_1")).toHaveLength(1);
  });

  it("only deferrals and steps between tiers wait for others to share their commit: a fan-out that a crash forgets leaves tries without a row", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER } });
    const urgencies = new Map<string, Set<Urgency>>();
    world.onAppend = (records, urgency) => {
      const subject = subjectOf(records);
      urgencies.set(subject, (urgencies.get(subject) ?? new Set()).add(urgency));
    };
    world.configure("dst_1");
    world.configure("dst_limited", { rateLimitMax: 1, rateLimitWindow: "minute" });
    world.configure("dst_failing", { retryMaxAttempts: 1 });
    world.behaviours.set("dst_failing", FAIL);
    await world.start();
    for (let count = 0; count < 20; count += 1) {
      world.ingest();
      // Configured as active at the fan-out, and paused by the time of the retry.
      if (count === 10) world.configure("dst_failing", { status: "paused" });
      await world.clock.advance(500);
    }
    await world.clock.advance(60_000);
    world.configure("dst_failing", { status: "active" });
    await world.clock.advance(5 * 60_000);
    expect(Object.fromEntries([...urgencies].map(([what, how]) => [what, [...how]]))).toEqual({
      fanout: ["now"],
      delivered: ["now"],
      failed: ["now"],
      dead: ["now"],
      held: ["now"],
      limits: ["now"],
      rate_limited: ["soon"],
      // At once only what the resume recalls.
      "put off or moved on": ["soon", "now"],
    });
  });

  it.each([
    { writesWhole: true, calls: [["attempts", "delay-15s"]] },
    { writesWhole: false, calls: [["attempts"], ["delay-15s"]] },
  ])(
    "regression: an end is durable before what follows it, where a log may write only a part of a call (whole: $writesWhole): a crash left try 3 without the row of try 2, which was made again beside it",
    async ({ writesWhole, calls }) => {
      const world = new SimWorld();
      world.store.writesWhole = writesWhole;
      const seen: string[][] = [];
      world.onAppend = (records) => seen.push(records.map(({ topic }) => topic));
      world.configure("dst_1", { retryMaxAttempts: 1 });
      world.behaviours.set("dst_1", FAIL);
      await world.start();
      world.ingest();
      await world.clock.advance(HOUR);
      // The first call is the fan-out's.
      expect(seen.slice(1, 1 + calls.length)).toEqual(calls);
      expect(world.attempts().map(({ tryNumber, status }) => [tryNumber, status])).toEqual([
        [1, "failed"],
        [2, "dead"],
      ]);
    },
  );

  it("regression: held tasks are in the log again before they count as no longer held, where it may write only a part of a call: a crash in between lost them", async () => {
    const world = new SimWorld();
    world.store.writesWhole = false;
    world.configure("dst_1", { status: "paused" });
    await world.start();
    world.replay(world.ingest(), "dst_1", "run1");
    await world.clock.advance(500);
    const seen: string[][] = [];
    world.onAppend = (records) => seen.push(records.map(({ topic }) => topic));
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(10_000);
    expect(seen).toEqual([["tasks"], ["held"], ["attempts"]]);
    expect(world.seen).toHaveLength(1);
  });

  it("regression: an owner says that it is done after its last limits, where the log may write only a part of a call", async () => {
    const world = new SimWorld();
    world.store.writesWhole = false;
    world.configure("dst_1", { rateLimitMax: 100, rateLimitWindow: "minute" });
    const process = await world.start();
    world.ingest();
    await world.clock.advance(500);
    const seen: string[][] = [];
    world.onAppend = (records) => seen.push(records.map(({ topic }) => topic));
    await world.stop(process);
    expect(seen).toEqual([["limits"], ["attempts"]]);
  });

  it("sends nothing for a rejected event and completes it", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    await world.start();
    world.ingest({ signatureValid: false });
    await world.clock.advance(500);
    expect(world.seen).toEqual([]);
    expect(world.outcomes()).toEqual([]);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
  });

  it("retries with growing delays until it is delivered, never early and at most two seconds late", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", (seen, nth) => (nth < 3 ? FAIL(seen, nth) : OK(seen, nth)));
    await world.start();
    world.ingest();
    await world.clock.advance(HOUR);
    expect(world.seen.map((seen) => seen.attempt)).toEqual([1, 2, 3, 4]);
    const rows = world.attempts();
    expect(rows.map((row) => row.status)).toEqual(["failed", "failed", "failed", "delivered"]);
    for (const [index, row] of rows.slice(0, -1).entries()) {
      const lateMs = rows[index + 1]!.attemptedAtMs - row.nextRetryAtMs!;
      expect(lateMs).toBeGreaterThanOrEqual(0);
      expect(lateMs).toBeLessThan(2_000);
      const delayMs = row.nextRetryAtMs! - row.attemptedAtMs;
      expect(delayMs).toBeGreaterThanOrEqual(30_000 * 3 ** index * 0.8);
      expect(delayMs).toBeLessThanOrEqual(30_000 * 3 ** index * 1.2 + 100);
    }
  });

  it("ends dead after the last retry", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryMaxAttempts: 2, retryBackoff: "fixed" });
    world.behave("dst_1", FAIL);
    await world.start();
    world.ingest();
    await world.clock.advance(HOUR);
    expect(world.attempts().map((row) => row.status)).toEqual(["failed", "failed", "dead"]);
    expect(world.attempts().at(-1)?.nextRetryAtMs).toBeNull();
  });

  it("ends dead on 410, disables the destination, and spends no retries", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 1, reply: answer(410) }));
    await world.start();
    world.ingest();
    await world.clock.advance(HOUR);
    expect(world.attempts().map((row) => row.status)).toEqual(["dead"]);
    expect(world.disabled).toEqual(["dst_1"]);
  });

  it("waits as long as Retry-After asks", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", (seen, nth) =>
      nth === 0 ? { afterMs: 1, reply: answer(429, "", "600") } : OK(seen, nth),
    );
    await world.start();
    world.ingest();
    await world.clock.advance(HOUR);
    const [first, second] = world.seen;
    expect(second!.atMs - first!.atMs).toBeGreaterThanOrEqual(600_000);
    expect(second!.atMs - first!.atMs).toBeLessThan(602_000);
  });

  it.each([
    ["of bytes that are no UTF-8", "\ufffd".repeat(16 * 1024), "\ufffd".repeat(5_461)],
    ["of pairs of surrogates", `ab${"😀".repeat(8 * 1024)}`, `ab${"😀".repeat(4_095)}`],
    ["that just fits", `a${"é".repeat(8_191)}`, `a${"é".repeat(8_191)}`],
  ])("stores at most 16 KiB of an answer %s, cut between characters", async (_, body, stored) => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 5, reply: answer(200, body) }));
    await world.start();
    world.ingest();
    await world.clock.advance(500);
    expect(world.attempts().map(({ responseBody }) => responseBody === stored)).toEqual([true]);
  });

  it("records a timeout with its reason and retries it", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryMaxAttempts: 1 });
    world.behave("dst_1", HANG);
    await world.start();
    world.ingest();
    await world.clock.advance(HOUR);
    expect(world.attempts()).toMatchObject([
      { status: "timeout", httpStatus: 0, responseBody: "no answer within 15 s" },
      { status: "dead", httpStatus: 0, nextRetryAtMs: null },
    ]);
  });

  it("records a try that could not be sent, and says so: dropped, it would keep its partition where it is for ever", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    const { signDelivery } = world;
    world.signDelivery = () => {
      throw new TypeError("the secret is no base64");
    };
    await world.start();
    world.ingest();
    await world.clock.advance(1_000);
    expect(world.attempts().map(({ status, responseBody }) => [status, responseBody])).toEqual([
      ["failed", "the secret is no base64"],
    ]);
    expect(world.errors.map(({ message }) => message)).toEqual(["delivery.send_failed"]);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
    world.signDelivery = signDelivery;
    await world.clock.until(() => world.ended().size === 1, HOUR);
    expect(world.attempts().map(({ status }) => status)).toEqual(["failed", "delivered"]);
  });

  it("ends dead without a request what comes only after the retention is over", async () => {
    const world = new SimWorld({ delivery: { retentionMs: HOUR } });
    world.configure("dst_1");
    await world.start();
    const [late, inTime] = [world.makeEvent(), world.makeEvent()];
    for (const [event, ageMs] of [
      [late, HOUR + 1_000],
      [inTime, HOUR - 1_000],
    ] as const) {
      const task = firstTryOfReplay(event, "dst_1", "rpl_1", world.clock.now() - ageMs);
      world.store.write([{ topic: "tasks", key: event.endpointId, value: encodeTask(task) }]);
    }
    await world.clock.advance(1_000);
    expect(world.seen.map(({ eventId }) => eventId)).toEqual([inTime.id]);
    const rows = new Map(world.attempts().map((row) => [row.eventId, row]));
    expect(rows.get(late.id)).toMatchObject({
      status: "dead",
      httpStatus: 0,
      responseBody: NOT_DELIVERED_IN_RETENTION,
    });
    expect(rows.get(inTime.id)).toMatchObject({ status: "delivered" });
  });

  it("regression: ends what its limit puts off beyond the retention when that is over: it went round in the tiers for years", async () => {
    const world = new SimWorld({ delivery: { retentionMs: HOUR } });
    world.configure("dst_1", { rateLimitMax: 1, rateLimitWindow: "day" });
    await world.start();
    for (let count = 0; count < 4; count += 1) world.ingest();
    await world.clock.advance(HOUR - 1_000);
    expect([...world.ended().values()].map(({ status }) => status)).toEqual(["delivered"]);
    await world.clock.advance(5_000);
    const ends = [...world.ended().values()].slice(1);
    expect(ends.map(({ status, responseBody }) => `${status}: ${responseBody}`)).toEqual(
      Array(3).fill(`dead: ${NOT_DELIVERED_IN_RETENTION}`),
    );
    expect(world.seen).toHaveLength(1);
  });

  it("keeps retries of under a second in memory once they are durable", async () => {
    const world = new SimWorld({ delivery: { retryBaseMs: 200 } });
    world.configure("dst_1", { retryBackoff: "fixed" });
    world.behave("dst_1", (seen, nth) => (nth < 5 ? FAIL(seen, nth) : OK(seen, nth)));
    await world.start();
    world.ingest();
    await world.clock.advance(3_000);
    expect(world.attempts().map((row) => row.status)).toEqual([
      ...Array.from({ length: 5 }, () => "failed"),
      "delivered",
    ]);
    expect(world.store.all("tasks").map((record) => decodeTask(record.value).tryNumber)).toEqual([
      2, 3, 4, 5, 6,
    ]);
  });

  it("delivers what was in flight when the process died again, and nothing that had ended", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.configure("dst_2");
    world.behave("dst_1", () => ({ afterMs: 10_000, reply: answer(200) }));
    const first = await world.start("first");
    world.ingest();
    await world.clock.advance(1_000);
    expect(world.attempts().map((row) => row.destinationId)).toEqual(["dst_2"]);
    void world.store.kill(first, 100);
    await world.clock.advance(200);
    await world.start("second");
    await world.clock.advance(60_000);
    expect(world.requestsTo("dst_1")).toHaveLength(2);
    expect(world.requestsTo("dst_2")).toHaveLength(1);
    expect(world.ended().size).toBe(2);
  });

  it("makes up for an event whose fan-out had to wait for the configuration", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.configKind = "unavailable";
    await world.start();
    world.ingest();
    await world.clock.advance(30_000);
    expect(world.seen).toEqual([]);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
    world.configKind = "async";
    await world.clock.advance(15_000);
    expect(world.seen).toHaveLength(1);
    expect(world.ended().size).toBe(1);
  });

  it("stops gracefully: what is in flight is finished, and the next owner need not wait", async () => {
    const world = new SimWorld({ delivery: { takeoverWaitMs: 45_000 } });
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 3_000, reply: answer(200) }));
    const first = await world.start("first");
    world.ingest();
    await world.clock.advance(100);
    await world.stop(first);
    expect(world.attempts().map((row) => row.status)).toEqual(["delivered"]);
    const second = await world.start("second");
    world.ingest();
    await world.clock.advance(4_000);
    expect(world.attempts()).toHaveLength(2);
    void world.store.kill(second, 100);
    await world.clock.advance(200);
    await world.start("third");
    world.ingest();
    await world.clock.advance(30_000);
    expect(world.seen).toHaveLength(2);
    await world.clock.advance(30_000);
    expect(world.seen).toHaveLength(3);
  });

  it("stops soon, though the log takes nothing any more", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    const process = await world.start();
    world.ingest();
    await world.clock.until(() => world.ended().size === 1, 5_000);
    world.store.faults = { ...world.store.faults, appendFate: () => "lost" };
    const stoppedAtMs = world.clock.now();
    await world.stop(process);
    expect(world.clock.now() - stoppedAtMs).toBeLessThan(10_000);
  });
});
