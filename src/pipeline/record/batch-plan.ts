import { hash } from "node:crypto";

/**
 * What the next insert will hold, written beforehand into the commit metadata of every partition in it: after a crash the very
 * same rows are inserted under the same token, so that the store drops them if they had arrived. `ranges` are in order of the
 * partitions; plans of one log with the same `key` are the same.
 */
export interface BatchPlan {
  readonly key: string;
  readonly ranges: readonly OffsetRange[];
}

/** Offsets of one partition, from the first to the one after the last. */
export interface OffsetRange {
  readonly partition: number;
  readonly from: number;
  readonly to: number;
}

/** Kafka keeps at most 4096 bytes of metadata. */
export const MAX_PLAN_PARTITIONS = 80;

export function makePlan(topic: string, ranges: readonly OffsetRange[]): BatchPlan {
  const sorted = ranges.toSorted((a, b) => a.partition - b.partition);
  return { key: `${topic}:${textOf(sorted, "-")}`, ranges: sorted };
}

/**
 * Returns the token that the store knows an insert by. Offsets start over with every new log, while a store may outlive its log
 * or be shared by several: so the token also depends on the ids of the rows, which no other log has. When a repeated batch
 * lacks rows of the first (the log has deleted them), its token is another: rows that are stored twice still count once.
 */
export function insertToken(plan: BatchPlan, rowIds: readonly string[]): string {
  return `${plan.key}#${hash("sha256", rowIds.join("\n"), "base64url")}`;
}

export function encodePlan(plan: BatchPlan): string {
  return textOf(plan.ranges, " ");
}

/** Returns null when there is no plan, or another version wrote it. */
export function decodePlan(topic: string, metadata: string): BatchPlan | null {
  const ranges = metadata.split(",").map((part) => part.split(" ").map(Number));
  if (!ranges.every((range) => range.length === 3 && range.every(Number.isSafeInteger)))
    return null;
  return makePlan(
    topic,
    ranges.map(([partition = 0, from = 0, to = 0]) => ({ partition, from, to })),
  );
}

function textOf(ranges: readonly OffsetRange[], separator: string): string {
  return ranges.map(({ partition, from, to }) => [partition, from, to].join(separator)).join(",");
}
