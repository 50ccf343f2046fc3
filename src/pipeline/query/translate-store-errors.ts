import { RelayError } from "../../domain/errors.ts";
import type { EventFilter } from "../../domain/event-query.ts";
import { EventStoreError } from "../../domain/event-store.ts";

/**
 * Runs the work of a query. @param filter what it asked for, so that an answer that took too long says how to narrow it
 * @throws {RelayError} `unavailable` for every failure of the store but one that is a bug
 */
export async function translateStoreErrors<T>(
  filter: EventFilter,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof EventStoreError)) throw error;
    switch (error.code) {
      case "query_limit":
        throw new RelayError("unavailable", `The query took too long. ${howToNarrow(filter)}`, {
          cause: error,
        });
      case "store_busy":
        throw new RelayError(
          "unavailable",
          "The event store is busy with other questions; ask fewer at once, or try again shortly",
          { cause: error },
        );
      case "store_unavailable":
        throw new RelayError("unavailable", "The event store does not answer; try again shortly", {
          cause: error,
        });
      case "store_refused":
        throw error;
      default:
        return error.code satisfies never;
    }
  }
}

function howToNarrow(filter: EventFilter): string {
  const advice: string[] = [];
  if (filter.fromMs === undefined || filter.toMs === undefined) advice.push("set from and to");
  else advice.push("choose a shorter time between from and to");
  if (filter.endpointId === undefined) advice.push("set endpoint_id");
  if (filter.q !== undefined) advice.push("search for a longer or rarer q, or for field and value");
  return `Narrow it: ${advice.join(", or ")}`;
}
