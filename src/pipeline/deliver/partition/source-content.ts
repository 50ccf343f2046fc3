import { EVENT_RUN, FANOUT_LATER } from "../../../domain/delivery-task.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { EventRecord } from "../../../domain/event.ts";
import type { LogRecord } from "../../../domain/log.ts";
import { runKey } from "../../../domain/run-keys.ts";
import { decodeEvent } from "../../log/event-codec.ts";
import { decodeTask } from "../../log/task-codec.ts";

/** What a record of `events` or `tasks` asks for; `delayed` is the task as which a fan-out has waited. */
export type SourceContent =
  | { readonly kind: "try"; readonly task: DeliveryTask }
  | { readonly kind: "fanout"; readonly event: EventRecord; readonly delayed: DeliveryTask | null };

/** @throws {Error} on a record that cannot be read */
export function contentOf({ topic, value }: LogRecord): SourceContent {
  if (topic === "events") return { kind: "fanout", event: decodeEvent(value), delayed: null };
  const task = decodeTask(value);
  return task.destinationId === FANOUT_LATER
    ? { kind: "fanout", event: task.event, delayed: task }
    : { kind: "try", task };
}

/** The step of a fan-out that has not waited yet. */
export const FIRST_STEP = { tryNumber: 1, deferrals: 0 };

/** Returns the key under which a ledger keeps a fan-out that is still to be made. */
export function fanoutLaterKey(event: EventRecord): string {
  return runKey(event.id, FANOUT_LATER, EVENT_RUN);
}
