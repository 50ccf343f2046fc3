import { FANOUT_LATER } from "../../domain/delivery-task.ts";
import { topicForDelay } from "../../domain/delay-tier.ts";
import type { LogRecord, NewRecord } from "../../domain/log.ts";
import { mayGoSooner, UNLIMITED } from "../../domain/rate-limit.ts";
import type { LimitPace } from "../../domain/rate-limit.ts";
import { decodeTask, decodeTaskHead, encodeTask } from "../log/task-codec.ts";
import type { TaskHead } from "../log/task-codec.ts";

/**
 * What rate limits put off: the lowest hourly rate and the longest window among these limits, and when the last task is due (0
 * if there is none).
 */
export interface LimitedTasks {
  readonly slowest: LimitPace;
  readonly limitedUntilMs: number;
}

/** What waits in a tier for one destination. */
export interface WaitingTasks extends LimitedTasks {
  readonly endpointId: string;
  readonly lastOffset: number;
}

/**
 * Destinations whose tasks go on now: for those in `gone` all tasks, as they are; for those in `sooner` the tasks that a rate
 * limit put off and the current one may let go sooner.
 */
export interface RecalledTasks {
  readonly gone: ReadonlySet<string>;
  readonly sooner: ReadonlyMap<string, LimitPace>;
}

const NOTHING_WAITS: LimitedTasks = { slowest: UNLIMITED, limitedUntilMs: 0 };

/** Adds to `found` what waits in these records for destinations of the endpoints (null: of all), by destination. */
export function addWaiting(
  found: Map<string, WaitingTasks>,
  records: readonly LogRecord[],
  endpointIds: ReadonlySet<string> | null,
): void {
  for (const { key, value, offset } of records) {
    const head = endpointIds?.has(key) === false ? null : headOf(value);
    if (head === null || head.destinationId === FANOUT_LATER) continue;
    const { limitedBy, dueAtMs } = head;
    const own =
      limitedBy === null ? NOTHING_WAITS : { slowest: limitedBy, limitedUntilMs: dueAtMs };
    const known = found.get(head.destinationId) ?? NOTHING_WAITS;
    const { slowest, limitedUntilMs } = sumOf(known, own);
    const waiting = { slowest, limitedUntilMs, endpointId: key, lastOffset: offset };
    found.set(head.destinationId, waiting);
  }
}

/** Yields the same records, at least `minBytes` at a time. */
export async function* inLargeBatches(
  batches: AsyncIterable<readonly LogRecord[]>,
  minBytes: number,
): AsyncGenerator<readonly LogRecord[]> {
  let records: LogRecord[] = [];
  let bytes = 0;
  for await (const batch of batches) {
    records.push(...batch);
    for (const { value } of batch) bytes += value.length;
    if (bytes < minBytes) continue;
    yield records;
    records = [];
    bytes = 0;
  }
  if (records.length > 0) yield records;
}

/** Returns what waits in any of the tiers, by destination. */
export function inAllTiers(
  tiers: Iterable<ReadonlyMap<string, LimitedTasks>>,
): ReadonlyMap<string, LimitedTasks> {
  const all = new Map<string, LimitedTasks>();
  for (const tier of tiers)
    for (const [id, waiting] of tier) all.set(id, sumOf(all.get(id) ?? NOTHING_WAITS, waiting));
  return all;
}

/**
 * Returns the record that moves a recalled task on to its lane, or any other task to the tier it belongs to now. Its partition
 * stays: only that partition's owner knows which of its ends are durable.
 */
export function movedOn(
  { key, value, partition }: LogRecord,
  { gone, sooner }: RecalledTasks,
  nowMs: number,
): NewRecord {
  const head = headOf(value);
  if (head === null || gone.has(head.destinationId))
    return { topic: "tasks", key, partition, value };
  const pace = sooner.get(head.destinationId);
  if (head.limitedBy === null || pace === undefined || !mayGoSooner(pace, head.limitedBy))
    return { topic: topicForDelay(head.dueAtMs - nowMs, value.length), key, partition, value };
  const task = decodeTask(value);
  // One step further: a copy with the old due time is known to be older.
  const again = { ...task, deferrals: task.deferrals + 1, dueAtMs: nowMs };
  return { topic: "tasks", key, partition, value: encodeTask(again) };
}

function sumOf(one: LimitedTasks, other: LimitedTasks): LimitedTasks {
  return {
    slowest: {
      perHour: Math.min(one.slowest.perHour, other.slowest.perHour),
      windowMs: Math.max(one.slowest.windowMs, other.slowest.windowMs),
    },
    limitedUntilMs: Math.max(one.limitedUntilMs, other.limitedUntilMs),
  };
}

/** Returns null if the record cannot be read. */
function headOf(value: Uint8Array): TaskHead | null {
  try {
    return decodeTaskHead(value);
  } catch {
    return null;
  }
}
