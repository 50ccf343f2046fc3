import type { Starts } from "../../../domain/rate-limit.ts";
import { laterOf, shiftTimes } from "./counted-until.ts";
import type { CountedUntil } from "./counted-until.ts";

/** Up to `count` tries that may go out before `untilMs`; written before the first of them starts. */
export interface Block {
  readonly untilMs: number;
  readonly count: number;
}

/**
 * A destination's latest record in the `limits` log: the starts, and what may have started since. Times in the log are wall
 * clock, ms.
 */
export interface LimitRecord {
  readonly destinationId: string;
  readonly starts: readonly Starts[];
  readonly block: Block | null;
  /** Absent in records of older versions. */
  readonly countedUntil?: CountedUntil;
}

/** The state of a limit when its lane ends. */
export interface LastLimit {
  readonly record: LimitRecord;
  readonly endpointId: string;
}

/** Returns all starts of the record, unordered; what may have started since counts as late as possible. */
export function startsOf({ starts, block }: Pick<LimitRecord, "starts" | "block">): Starts[] {
  return block === null ? [...starts] : [...starts, [block.untilMs, block.count]];
}

/** Adds starts that were known earlier, with the times until which they may count. */
export function withEarlier(
  earlier: Pick<LimitRecord, "starts" | "countedUntil">,
  record: LimitRecord,
): LimitRecord {
  return {
    ...record,
    starts: [...earlier.starts, ...record.starts],
    countedUntil: laterOf(earlier.countedUntil ?? {}, record.countedUntil ?? {}),
  };
}

/** Converts the record to a clock that is `aheadMs` ahead of its own. */
export function shiftLimit(record: LimitRecord, aheadMs: number): LimitRecord {
  const { starts, block, countedUntil: times } = record;
  return {
    ...record,
    ...(times === undefined ? {} : { countedUntil: shiftTimes(times, aheadMs) }),
    starts: starts.map(([timeMs, count]): Starts => [timeMs + aheadMs, count]),
    block: block === null ? null : { ...block, untilMs: block.untilMs + aheadMs },
  };
}

export function encodeLimit(record: LimitRecord): Uint8Array {
  return Buffer.from(JSON.stringify({ v: 1, ...record }));
}

/** @throws {Error} on a foreign record */
export function decodeLimit(value: Uint8Array): LimitRecord {
  const parsed: unknown = JSON.parse(Buffer.from(value).toString());
  const record = parsed as LimitRecord & { readonly v: number };
  if (record.v !== 1 || typeof record.destinationId !== "string" || !Array.isArray(record.starts))
    throw new Error("limits record of unknown version: was it written by a newer relay?");
  return record;
}
