import type { Starts } from "../../../domain/rate-limit.ts";

/** Up to `count` tries may go out before `untilMs`: written before the first of them starts. */
export interface Block {
  readonly untilMs: number;
  readonly count: number;
}

/** The latest record of a destination in the `limits` log: what started, and what may have started since. Wall clock there, ms. */
export interface LimitRecord {
  readonly destinationId: string;
  readonly starts: readonly Starts[];
  readonly block: Block | null;
}

/** All starts that it counts, in no order: what may have started since is taken for as late as it can be. */
export function startsOf({ starts, block }: Pick<LimitRecord, "starts" | "block">): Starts[] {
  return block === null ? [...starts] : [...starts, [block.untilMs, block.count]];
}

/** What it says by a clock that is ahead of its own by so much. */
export function shiftLimit(record: LimitRecord, aheadMs: number): LimitRecord {
  const { destinationId, starts, block } = record;
  return {
    destinationId,
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
