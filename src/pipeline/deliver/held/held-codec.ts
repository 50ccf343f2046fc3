import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { decodeRecord, encodeRecord } from "../../log/codec.ts";
import { decodeTask, encodeTask } from "../../log/task-codec.ts";

/** A record of the `held` log: a task that waits for its destination, or the mark that some went on. */
export type HeldEntry =
  | { readonly kind: "task"; readonly task: DeliveryTask }
  | {
      readonly kind: "released";
      readonly destinationId: string;
      readonly offsets: readonly number[];
    };

const TASK = 0;
const RELEASED = 1;

export function encodeHeldTask(task: DeliveryTask): Buffer {
  return encodeRecord([TASK], [encodeTask(task)]);
}

export function encodeHeldReleased(destinationId: string, offsets: readonly number[]): Buffer {
  return encodeRecord([RELEASED, destinationId, offsets], []);
}

/** @throws {Error} on a foreign record */
export function decodeHeld(value: Uint8Array): HeldEntry {
  const { head, rest } = decodeRecord(value);
  if (head[0] === TASK) return { kind: "task", task: decodeTask(rest) };
  if (head[0] === RELEASED)
    return { kind: "released", destinationId: String(head[1]), offsets: head[2] as number[] };
  throw new Error("held record of unknown kind: was it written by a newer relay?");
}
