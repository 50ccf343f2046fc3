import type { LogRecord, NewRecord, OwnedPartition } from "../../../domain/log.ts";
import type { Logger } from "../../../domain/logger.ts";
import type { Starts } from "../../../domain/rate-limit.ts";
import { laterOf } from "./counted-until.ts";
import { decodeLimit, encodeLimit, startsOf } from "./limits-codec.ts";
import type { LimitRecord } from "./limits-codec.ts";

const SEPARATOR = "|";
const MOVED = "moved";
/** A start counts for at most twice the longest window, which is a day; the third day allows for clocks that were set. */
const FORGOTTEN_AFTER_MS = 3 * 86_400_000;

/**
 * Returns the key of a destination's record: compaction keeps the latest one per key. The partition is the endpoint's, not the
 * key's.
 */
export function limitKey(endpointId: string, destinationId: string): string {
  return `${endpointId}${SEPARATOR}${destinationId}`;
}

interface Known {
  readonly limit: LimitRecord;
  /** When it was sent to the log, by its sender's clock. */
  readonly appendedAtMs: number;
}

/**
 * What the `limits` log of a partition says. When the number of partitions has grown, an endpoint's new home knows nothing of
 * what was sent from the old one, so the owner of the old one appends its record there under a separate key, and both count.
 * The new owner may have begun before that, hence `readOn`. The log keeps the latest record of every destination there has
 * ever been; those that no window can count any more are not kept here.
 */
export class KnownLimits {
  readonly #own = new Map<string, Known>();
  readonly #moved = new Map<string, Known>();
  readonly #endpoints = new Map<string, string>();
  readonly #sinceMs: number;
  #next = 0;

  /** `nowMs`: wall clock. */
  constructor(nowMs: number) {
    this.#sinceMs = nowMs - FORGOTTEN_AFTER_MS;
  }

  /** @throws {Error} on a foreign record */
  note(record: LogRecord): void {
    this.#next = Math.max(this.#next, record.offset + 1);
    const { appendedAtMs } = record;
    const limit = decodeLimit(record.value);
    const [endpointId = "", , moved] = record.key.split(SEPARATOR);
    const { destinationId } = limit;
    const kept = moved === MOVED ? this.#moved : this.#own;
    if (startsOf(limit).some(([timeMs]) => timeMs >= this.#sinceMs)) {
      kept.set(destinationId, latestOf(kept.get(destinationId), { limit, appendedAtMs }));
      this.#endpoints.set(destinationId, endpointId);
    } else {
      kept.delete(destinationId);
      if (this.get(destinationId) === null) this.#endpoints.delete(destinationId);
    }
  }

  get(destinationId: string): LimitRecord | null {
    const own = this.#own.get(destinationId)?.limit;
    const moved = this.#moved.get(destinationId)?.limit;
    if (own === undefined || moved === undefined) return own ?? moved ?? null;
    return merge(own, moved);
  }

  /** Reads what has been appended since. Never rejects: what cannot be read stays unknown. */
  async readOn(partition: OwnedPartition, logger: Logger): Promise<void> {
    try {
      for await (const records of partition.read("limits", this.#next))
        for (const record of records) this.note(record);
    } catch (error) {
      logger.warn({ partition: partition.partition, err: error }, "delivery.limits_unread");
    }
  }

  /**
   * Returns the records that move the state of every destination whose home is elsewhere by now: its state for there, then
   * empty records for here.
   */
  moves(
    here: number,
    homeOf: (endpointId: string) => number,
  ): readonly [there: NewRecord[], here: NewRecord[]] {
    const moved: NewRecord[] = [];
    const left: NewRecord[] = [];
    for (const [destinationId, endpointId] of this.#endpoints) {
      const home = homeOf(endpointId);
      const limit = this.get(destinationId);
      if (home === here || limit === null) continue;
      const key = limitKey(endpointId, destinationId);
      const topic = "limits";
      moved.push({
        topic,
        key: `${key}${SEPARATOR}${MOVED}`,
        partition: home,
        value: encodeLimit(limit),
      });
      const nothing = encodeLimit({ destinationId, starts: [], block: null, countedUntil: {} });
      left.push({ topic, key, partition: here, value: nothing });
      if (this.#moved.has(destinationId))
        left.push({
          topic,
          key: `${key}${SEPARATOR}${MOVED}`,
          partition: here,
          value: nothing,
        });
    }
    return [moved, left];
  }
}

/**
 * Returns what is known after the next record. One that was sent before the record it follows is of an owner that was cut off from
 * the log: it arrived behind those of the next owner, and both have sent what they say.
 */
function latestOf(former: Known | undefined, next: Known): Known {
  if (former === undefined || next.appendedAtMs >= former.appendedAtMs) return next;
  return { limit: merge(former.limit, next.limit), appendedAtMs: former.appendedAtMs };
}

/** Merges two records; starts that are in both count once. */
function merge(own: LimitRecord, moved: LimitRecord): LimitRecord {
  const counts = new Map<number, number>();
  const note = ([timeMs, count]: Starts): void => {
    counts.set(timeMs, Math.max(count, counts.get(timeMs) ?? 0));
  };
  for (const starts of [...own.starts, ...moved.starts]) note(starts);
  if (moved.block !== null) note([moved.block.untilMs, moved.block.count]);
  const starts = [...counts].toSorted(([a], [b]) => a - b);
  const { destinationId, block, countedUntil } = own;
  if (countedUntil === undefined || moved.countedUntil === undefined)
    return { destinationId, starts, block };
  return { destinationId, starts, block, countedUntil: laterOf(countedUntil, moved.countedUntil) };
}
