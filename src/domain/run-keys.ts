import type { DeliveryTask } from "./delivery-task.ts";
import type { EventRecord } from "./event.ts";

type OfRun = Pick<DeliveryTask, "destinationId" | "run"> & {
  readonly event: Pick<EventRecord, "id">;
};

/** Identifies one cause (the event, or a replay) at all destinations that it went to. */
export function fanoutKey(eventId: string, run: string): string {
  return `${eventId}|${run}`;
}

/**
 * Identifies one run: one cause at one destination. Joined: a template is a rope, which a `Map` would keep with all its parts
 * ("The collector" in bench/what-was-tried.md).
 */
export function runKey(eventId: string, destinationId: string, run: string): string {
  return [eventId, destinationId, run].join("|");
}

export function runKeyOf({ event, destinationId, run }: OfRun): string {
  return runKey(event.id, destinationId, run);
}

/** Identifies one try, across redeliveries. */
export function tryKey({
  event,
  destinationId,
  run,
  tryNumber,
}: OfRun & Pick<DeliveryTask, "tryNumber">): string {
  return [event.id, destinationId, run, tryNumber].join("|");
}
