import { expect, it } from "vitest";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import { decodeRecord, encodeRecord } from "../../../src/pipeline/log/codec.ts";
import { decodeTask, decodeTaskHead, encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { makeEvent } from "../../support/clickhouse-events.ts";

const TASK: DeliveryTask = {
  ...firstTry(makeEvent(1), "dst_1", 0),
  tryNumber: 3,
  deferrals: 2,
  dueAtMs: 1_700_000_000_000,
};
const LIMITED = { limitedBy: { perHour: 600, windowMs: 60_000 }, putOffByReceiverAtMs: null };
const AWAITING = { limitedBy: null, putOffByReceiverAtMs: 1_700_000_000_000 };
const NEITHER = { limitedBy: null, putOffByReceiverAtMs: null };

it.each([LIMITED, AWAITING, NEITHER])("a task put off by %j comes back as it was", (putOff) => {
  const task = { ...TASK, ...putOff };
  const value = encodeTask(task);
  expect(decodeTask(value)).toEqual(task);
  const { destinationId, dueAtMs } = task;
  expect(decodeTaskHead(value)).toEqual({ destinationId, dueAtMs, ...putOff });
});

// A log is read on by a newer relay.
it.each([
  [7, LIMITED, NEITHER],
  [9, LIMITED, LIMITED],
  [9, AWAITING, NEITHER],
])("a record with the first %i fields only, of %j, is read as %j", (fields, putOff, read) => {
  const { head, rest } = decodeRecord(encodeTask({ ...TASK, ...putOff }));
  const older = encodeRecord(head.slice(0, fields), [rest]);
  expect(decodeTask(older)).toEqual({ ...TASK, ...read });
  expect(decodeTaskHead(older)).toMatchObject(read);
});

it.each([
  [true, { limitedBy: null, putOffByReceiverAtMs: 1 }],
  [false, NEITHER],
])("an older record that says %j of its receiver, and no time, is read as %j", (was, read) => {
  const { head, rest } = decodeRecord(encodeTask({ ...TASK, ...AWAITING }));
  const older = encodeRecord([...head.slice(0, 9), was], [rest]);
  expect(decodeTask(older)).toEqual({ ...TASK, ...read });
  expect(decodeTaskHead(older)).toMatchObject(read);
});
