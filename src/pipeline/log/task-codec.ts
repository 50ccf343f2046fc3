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
];

export function encodeTask(task: DeliveryTask): Buffer {
  const head: Head = [
    task.destinationId,
    task.run,
    task.trigger,
    task.tryNumber,
    task.deferrals,
    task.dueAtMs,
    task.runStartedAtMs,
  ];
  return encodeRecord(head, encodeEvent(task.event));
}

/** @throws {Error} on a foreign record */
export function decodeTask(value: Uint8Array): DeliveryTask {
  const { head, rest } = decodeRecord(value);
  const [destinationId, run, trigger, tryNumber, deferrals, dueAtMs, runStartedAtMs] = head as Head;
  return {
    event: decodeEvent(rest),
    destinationId,
    run,
    trigger,
    tryNumber,
    deferrals,
    dueAtMs,
    runStartedAtMs,
  };
}

/** Which destination a task is for, read from its head alone. */
export function destinationOfTask(value: Uint8Array): string {
  const { head } = decodeRecord(value);
  return (head as Head)[0];
}

/** When a task is due, read from its head alone: a delay tier need not decode the event. */
export function dueTimeOfTask(value: Uint8Array): number {
  const { head } = decodeRecord(value);
  return (head as Head)[5];
}
