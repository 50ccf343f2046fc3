import type { Attempt } from "../../src/domain/attempt.ts";
import { runOf } from "./sim-history.ts";
import type { Story } from "./sim-history.ts";
import type { SeenRequest } from "./sim-world.ts";

/** The longest a request is on its way (21 ms), and a little. */
export const NETWORK_MS = 25;
/** The longest that a slow connection takes. */
export const SLOW_CONNECT_MS = 600;
/** The time within which an end is durable (DESIGN, I8). */
export const DURABLE_MS = 100;
/** The same where appends fail: some are retried first, after 100, 200 and 400 ms. */
export const DURABLE_AGAIN_MS = 800;

/** What receivers saw and what the log holds, by run. */
export interface Facts {
  /** Attempt rows by `event|destination|run`, in order of tries. */
  readonly rows: ReadonlyMap<string, Attempt[]>;
  /** Requests by `event|destination|run`, in order of time. */
  readonly requests: ReadonlyMap<string, SeenRequest[]>;
  /** When the end of a try first became durable, by `event|destination|run|try`. */
  readonly endedAt: ReadonlyMap<string, number>;
}

export function gather(story: Story): Facts {
  const { world } = story;
  const replayed = new Map<string, string>();
  for (const { event, destinationId, run } of story.replays)
    replayed.set(`${event.id}|${destinationId}`, run);
  const requests = new Map<string, SeenRequest[]>();
  for (const seen of world.seen) {
    const { eventId, destinationId, trigger } = seen;
    const run = trigger === "event" ? "event" : replayed.get(`${eventId}|${destinationId}`)!;
    push(requests, runOf(eventId, destinationId, run), seen);
  }
  const rows = new Map<string, Attempt[]>();
  for (const row of world.attempts())
    push(rows, runOf(row.eventId, row.destinationId, row.run), row);
  for (const list of rows.values())
    list.sort((one, other) => one.tryNumber - other.tryNumber || one.deferral - other.deferral);
  const endedAt = new Map<string, number>();
  for (let partition = 0; partition < world.store.partitions; partition += 1) {
    const records = world.store.records("attempts", partition);
    for (const [index, outcome] of world.outcomesOf(partition).entries()) {
      if (outcome.kind !== "attempt" || outcome.attempt.status === "rate_limited") continue;
      const { eventId, destinationId, run, tryNumber } = outcome.attempt;
      const key = `${runOf(eventId, destinationId, run)}|${tryNumber}`;
      if (!endedAt.has(key)) endedAt.set(key, records[index]!.appendedAtMs);
    }
  }
  return { rows, requests, endedAt };
}

function push<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}
