import type { DeliveryTask, Trigger } from "../../domain/delivery-task.ts";
import type { LimitPace } from "../../domain/rate-limit.ts";
import { decodeRecord, encodeRecord } from "./codec.ts";
import { decodeEvent, encodeEventInPieces } from "./event-codec.ts";

type Head = [
  destinationId: string,
  run: string,
  trigger: Trigger,
  tryNumber: number,
  deferrals: number,
  dueAtMs: number,
  runStartedAtMs: number,
  /** 0: no limit put it off. Older records lack this field and those after it. */
  limitedPerHour?: number,
  limitedWindowMs?: number,
  /** False: something else put it off. Older records have true for a time that is not known. */
  putOffByReceiverAtMs?: number | boolean,
];

/** What can be read of a task from its head alone: a delay tier need not decode the event. */
export type TaskHead = Pick<
  DeliveryTask,
  "destinationId" | "dueAtMs" | "limitedBy" | "putOffByReceiverAtMs"
>;

export function encodeTask(task: DeliveryTask): Buffer {
  const head: Head = [
    task.destinationId,
    task.run,
    task.trigger,
    task.tryNumber,
    task.deferrals,
    task.dueAtMs,
    task.runStartedAtMs,
    task.limitedBy?.perHour ?? 0,
    task.limitedBy?.windowMs ?? 0,
    task.putOffByReceiverAtMs ?? false,
  ];
  return encodeRecord(head, encodeEventInPieces(task.event));
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
    limitedBy: limitOf(head as Head),
    putOffByReceiverAtMs: putOffOf(head as Head),
  };
}

/** @throws {Error} on a foreign record */
export function decodeTaskHead(value: Uint8Array): TaskHead {
  const head = decodeRecord(value).head as Head;
  return {
    destinationId: head[0],
    dueAtMs: head[5],
    limitedBy: limitOf(head),
    putOffByReceiverAtMs: putOffOf(head),
  };
}

function putOffOf(head: Head): number | null {
  const at = head[9] ?? false;
  return at === false ? null : Number(at);
}

function limitOf(head: Head): LimitPace | null {
  const [perHour = 0, windowMs = 0] = [head[7], head[8]];
  return perHour === 0 ? null : { perHour, windowMs };
}
