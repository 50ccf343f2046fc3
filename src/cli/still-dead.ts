import type { Attempt } from "../client/types.ts";
import type { DeadEvent, TimeSpan } from "./find-dead-events.ts";

/** Questions about the events that the destination's endpoint received within a span. */
export interface ListQuestions {
  /** Returns how many there are, whatever became of them. */
  readonly count: (span: TimeSpan) => Promise<number>;
  /** Returns the ids of those with an attempt of this status at the destination; null if these are more than a page. */
  readonly having: (
    span: TimeSpan,
    status: "delivered" | "rate_limited",
  ) => Promise<ReadonlySet<string> | null>;
}

/** The lists cost three requests: this few events are asked for as cheaply one by one. */
const FEW_EVENTS = 3;
/** Where an endpoint received more events for each dead one, the store would go through all of them to list what was delivered. */
const MAX_RECEIVED_PER_DEAD = 10;

/**
 * Tells from lists which events are still dead at the destination (true) and which were delivered since (false). An event that is
 * missing in the answer has to be asked for its attempts, which costs the store for each as much as a list of a hundred. Their
 * summaries were read before the lists, so a replay that ended in between is in a list.
 * @param events a part of those that died, oldest first
 */
export async function tellByLists(
  events: readonly DeadEvent[],
  { count, having }: ListQuestions,
): Promise<ReadonlyMap<string, boolean>> {
  const told = new Map<string, boolean>();
  const failed: DeadEvent[] = [];
  for (const event of events) {
    const { id, summary } = event;
    if (summary === null || summary.pending > 0) continue;
    if (summary.failed === 0) told.set(id, false);
    else failed.push(event);
  }
  if (failed.length <= FEW_EVENTS) return told;
  const span = { fromMs: failed[0]!.receivedAtMs, untilMs: failed.at(-1)!.receivedAtMs + 1 };
  if ((await count(span)) > MAX_RECEIVED_PER_DEAD * failed.length) return told;
  const [delivered, putOff] = [await having(span, "delivered"), await having(span, "rate_limited")];
  if (delivered === null || putOff === null) return told;
  // Nothing is pending and nothing was ever delivered there: the last try ended dead.
  for (const { id } of failed) if (!delivered.has(id) && !putOff.has(id)) told.set(id, true);
  return told;
}

/**
 * Returns whether the last try at the destination ended `dead` and no other is put off by its rate limit: the row of
 * such a deferral has the number of the try that it puts off, and tries are numbered without gaps.
 * @param attempts oldest first
 */
export function isDeadAt(destination: string, attempts: readonly Attempt[]): boolean {
  const rows = attempts.filter(({ destination_id }) => destination_id === destination);
  const tries = rows.filter(({ status }) => status !== "rate_limited");
  const isPutOff = rows.some(({ attempt_number }) => attempt_number > tries.length);
  return tries.at(-1)?.status === "dead" && !isPutOff;
}
