import { FANOUT_LATER } from "../../domain/delivery-task.ts";
import { LANE_AHEAD_MS, topicForDelay } from "../../domain/delay-tier.ts";
import type { LogRecord, NewRecord } from "../../domain/log.ts";
import { mayGoSooner, UNLIMITED } from "../../domain/rate-limit.ts";
import type { LimitPace } from "../../domain/rate-limit.ts";
import { decodeTask, decodeTaskHead, encodeTask } from "../log/task-codec.ts";
import type { TaskHead } from "../log/task-codec.ts";

/** What was put off at one destination. */
export interface DeferredTasks {
  /** The lowest hourly rate and the longest window among the rate limits that put tasks off. */
  readonly slowest: LimitPace;
  /** When the last of these tasks is due; 0 if there is none. */
  readonly limitedUntilMs: number;
  /** When the last of those is due that the receiver put off; 0 if there is none. */
  readonly receiverUntilMs: number;
  /** When the first of them was put off; infinity if there is none. */
  readonly receiverSinceMs: number;
}

/** What waits in a tier for one destination. */
export interface WaitingTasks extends DeferredTasks {
  readonly endpointId: string;
  readonly lastOffset: number;
}

/**
 * Destinations whose tasks go on now: for those in `gone` all tasks, as they are; for those in `sooner` the tasks that a rate
 * limit put off and the current one may let go sooner; for those in `mended` the tasks that their receiver put off.
 */
export interface RecalledTasks {
  readonly gone: ReadonlySet<string>;
  readonly sooner: ReadonlyMap<string, LimitPace>;
  readonly mended: ReadonlySet<string>;
}

const NOTHING_WAITS: DeferredTasks = {
  slowest: UNLIMITED,
  limitedUntilMs: 0,
  receiverUntilMs: 0,
  receiverSinceMs: Number.POSITIVE_INFINITY,
};

/** Adds to `found` what waits in these records for destinations of the endpoints (null: of all), by destination. */
export function addWaiting(
  found: Map<string, WaitingTasks>,
  records: readonly LogRecord[],
  endpointIds: ReadonlySet<string> | null,
): void {
  for (const { key, value, offset } of records) {
    const head = endpointIds?.has(key) === false ? null : headOf(value);
    if (head === null || head.destinationId === FANOUT_LATER) continue;
    const known = found.get(head.destinationId) ?? NOTHING_WAITS;
    const { slowest, limitedUntilMs, receiverUntilMs, receiverSinceMs } = sumOf(
      known,
      deferredOf(head),
    );
    found.set(head.destinationId, {
      slowest,
      limitedUntilMs,
      receiverUntilMs,
      receiverSinceMs,
      endpointId: key,
      lastOffset: offset,
    });
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
  tiers: Iterable<ReadonlyMap<string, DeferredTasks>>,
): ReadonlyMap<string, DeferredTasks> {
  const all = new Map<string, DeferredTasks>();
  for (const tier of tiers)
    for (const [id, waiting] of tier) all.set(id, sumOf(all.get(id) ?? NOTHING_WAITS, waiting));
  return all;
}

/** Returns whether any of what waits for a destination is recalled. */
export function isRecalled(id: string, deferred: DeferredTasks, recalled: RecalledTasks): boolean {
  return recalled.gone.has(id) || recallWaitMs(id, deferred, recalled) !== null;
}

/** Returns how long what waits for a destination waits on when it is recalled, in ms; null if it is not. */
function recallWaitMs(
  id: string,
  { slowest, receiverUntilMs }: DeferredTasks,
  { sooner, mended }: RecalledTasks,
): number | null {
  const pace = sooner.get(id);
  if (pace !== undefined && mayGoSooner(pace, slowest)) return 0;
  // It may have been put off before it was due.
  return mended.has(id) && receiverUntilMs > 0 ? LANE_AHEAD_MS : null;
}

/**
 * Returns the record that moves a recalled task on, or any other task to the tier it belongs to now. Its partition stays: only
 * that partition's owner knows which of its ends are durable.
 */
export function movedOn(
  { key, value, partition }: LogRecord,
  recalled: RecalledTasks,
  nowMs: number,
): NewRecord {
  const head = headOf(value);
  if (head === null || recalled.gone.has(head.destinationId))
    return { topic: "tasks", key, partition, value };
  const waitMs = recallWaitMs(head.destinationId, deferredOf(head), recalled);
  if (waitMs === null)
    return { topic: topicForDelay(head.dueAtMs - nowMs, value.length), key, partition, value };
  const task = decodeTask(value);
  // One step further: a copy with the old due time is known to be older.
  const again = { ...task, deferrals: task.deferrals + 1, dueAtMs: nowMs + waitMs };
  return { topic: topicForDelay(waitMs, value.length), key, partition, value: encodeTask(again) };
}

function deferredOf({ limitedBy, putOffByReceiverAtMs, dueAtMs }: TaskHead): DeferredTasks {
  return {
    slowest: limitedBy ?? UNLIMITED,
    limitedUntilMs: limitedBy === null ? 0 : dueAtMs,
    receiverUntilMs: putOffByReceiverAtMs === null ? 0 : dueAtMs,
    receiverSinceMs: putOffByReceiverAtMs ?? Number.POSITIVE_INFINITY,
  };
}

function sumOf(one: DeferredTasks, other: DeferredTasks): DeferredTasks {
  return {
    slowest: {
      perHour: Math.min(one.slowest.perHour, other.slowest.perHour),
      windowMs: Math.max(one.slowest.windowMs, other.slowest.windowMs),
    },
    limitedUntilMs: Math.max(one.limitedUntilMs, other.limitedUntilMs),
    receiverUntilMs: Math.max(one.receiverUntilMs, other.receiverUntilMs),
    receiverSinceMs: Math.min(one.receiverSinceMs, other.receiverSinceMs),
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
