import { expect, it } from "vitest";
import { nextTurn } from "../../../src/domain/next-turn.ts";
import type { LogRecord, OwnedPartition } from "../../../src/domain/log.ts";
import { collect, record } from "../../support/log-consumer.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { until } from "../../support/wait-for.ts";

it("an owner that loses its partition before it has begun gets no record, and ends only after it has begun", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1 });
  await log.append([record("events", 0, "for the next owner")]);
  let owned: OwnedPartition | null = null;
  let begin = () => {};
  const steps: string[] = [];
  const handedOver: LogRecord[] = [];
  const slow = await log.consume({
    group: "owners",
    topics: ["events"],
    onAssigned: async (partition) => {
      owned = partition;
      await new Promise<void>((resolve) => {
        begin = resolve;
      });
      steps.push("begun");
    },
    onRevoked: async () => {
      // Time in which records would flow, if they did.
      for (let turn = 0; turn < 20; turn += 1) await nextTurn();
      steps.push("ended");
    },
    onRecords: (_partition, _topic, records) => {
      handedOver.push(...records);
    },
    onError: (error) => {
      throw error;
    },
  });
  await until(() => owned !== null, "the assignment");
  const left = slow[Symbol.asyncDispose]();
  await until(() => owned?.owned() === false, "the end of ownership");
  begin();
  await left;
  await using next = await collect(log, {
    group: "owners",
    topics: ["events"],
    deadlineMs: 20_000,
  });
  expect(await next.received(1)).toHaveLength(1);
  expect(handedOver).toEqual([]);
  expect(steps).toEqual(["begun", "ended"]);
});

it("an owner gets no record any more once its ownership has ended, though one was about to be handed over", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1 });
  const handedOver: boolean[] = [];
  const consumer = await collect(log, {
    group: "owners",
    topics: ["events"],
    deadlineMs: 20_000,
    onRecords: (partition) => {
      handedOver.push(partition.owned());
    },
    onRevoked: async () => {
      for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    },
  });
  await log.append([record("events", 0, "first")]);
  await consumer.received(1);
  await log.append([record("events", 0, "second")]);
  await consumer[Symbol.asyncDispose]();
  expect(handedOver).toEqual([true]);
});
