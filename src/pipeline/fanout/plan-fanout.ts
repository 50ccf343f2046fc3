import { EVENT_RUN, firstTry } from "../../domain/delivery-task.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../domain/destination.ts";
import type { EventRecord } from "../../domain/event.ts";
import { fanoutOf } from "../../domain/outcome.ts";
import type { OutcomeRecord } from "../../domain/outcome.ts";

/**
 * Plans the fan-out of an accepted event: a first try for every given destination that is active, and one record that says
 * which. The run begins when the event was received, so that a redelivery makes the same tasks. `givenTo` is what an earlier
 * owner chose according to the log; if given, it decides. `sentTo` are the destinations an earlier owner sent the event to
 * without its choice becoming durable: they are included whatever their status is now.
 */
export function planFanout(
  event: EventRecord,
  destinations: readonly DestinationConfig[],
  nowMs: number,
  givenTo: readonly string[] | null = null,
  sentTo: Iterable<string> = [],
): { readonly outcome: OutcomeRecord; readonly tasks: readonly DeliveryTask[] } {
  const active = destinations
    .filter((destination) => destination.status === "active")
    .map((destination) => destination.id);
  const destinationIds = givenTo ?? [...new Set([...active, ...sentTo])];
  return {
    outcome: fanoutOf(event, { run: EVENT_RUN, destinationIds, atMs: nowMs }),
    tasks: destinationIds.map((destinationId) => firstTry(event, destinationId, nowMs)),
  };
}
