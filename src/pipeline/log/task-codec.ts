import type { DeliveryTask, Trigger } from "../../domain/delivery-task.ts";
import { decodeRecord, encodeRecord } from "./codec.ts";
import { decodeEvent, encodeEvent } from "./event-codec.ts";

type Head = [
  destinationId: string,
  run: string,
  trigger: Trigger,
  tryNumber: number,
  deferrals: number,
  dueAtMs: number,
  runStartedAtMs: number,
  /** Not of records that were written before there was one. */
  limitedPerHour?: number,
];

/** What is read of a task from its head alone: a delay tier need not decode the event. */
export type TaskHead = Pick<DeliveryTask, "destinationId" | "dueAtMs" | "limitedPerHour">;

export function encodeTask(task: DeliveryTask): Buffer {
  const head: Head = [
    task.destinationId,
    task.run,
    task.trigger,
    task.tryNumber,
    task.deferrals,
    task.dueAtMs,
    task.runStartedAtMs,
    task.limitedPerHour,
  ];
  return encodeRecord(head, encodeEvent(task.event));
}

/** @throws {Error} on a foreign record */
export function decodeTask(value: Uint8Array): DeliveryTask {
  const { head, rest } = decodeRecord(value);
  const [
    destinationId,
    run,
    trigger,
    tryNumber,
    deferrals,
    dueAtMs,
    runStartedAtMs,
    limitedPerHour,
  ] = head as Head;
  return {
    event: decodeEvent(rest),
    destinationId,
    run,
    trigger,
    tryNumber,
    deferrals,
    dueAtMs,
    runStartedAtMs,
    limitedPerHour: limitedPerHour ?? 0,
  };
}

/** @throws {Error} on a foreign record */
export function decodeTaskHead(value: Uint8Array): TaskHead {
  const head = decodeRecord(value).head as Head;
  return { destinationId: head[0], dueAtMs: head[5], limitedPerHour: head[7] ?? 0 };
}
