import type { Topic } from "./log.ts";

export interface DelayTier {
  readonly topic: Topic;
  readonly delayMs: number;
}

/** Smallest first; neighbours differ by a factor of about four. */
export const DELAY_TIERS: readonly DelayTier[] = [
  { topic: "delay-1s", delayMs: 1_000 },
  { topic: "delay-4s", delayMs: 4_000 },
  { topic: "delay-15s", delayMs: 15_000 },
  { topic: "delay-1m", delayMs: 60_000 },
  { topic: "delay-4m", delayMs: 240_000 },
  { topic: "delay-15m", delayMs: 900_000 },
  { topic: "delay-1h", delayMs: 3_600_000 },
  { topic: "delay-4h", delayMs: 14_400_000 },
];

/** A lane takes in a task, or puts it off, at most this long before it is due. */
export const LANE_AHEAD_MS = 2_000;

/** A task due sooner than this goes into no tier: its owner keeps it in memory until then. */
export const WAIT_IN_MEMORY_MS = 1_500;
/**
 * The same for a large task, which may come almost a second late instead: in memory, a backlog's large tasks would fill their
 * lane before their time.
 */
const LARGE_WAITS_MS = 250;
const LARGE_BYTES = 256 * 1_024;

/** Returns where a task due in `remainingMs` waits next: the largest tier that still fits, or `tasks` when it is due soon. */
export function topicForDelay(remainingMs: number, sizeBytes: number): Topic {
  const isLarge = sizeBytes > LARGE_BYTES;
  if (remainingMs < (isLarge ? LARGE_WAITS_MS : WAIT_IN_MEMORY_MS)) return "tasks";
  const fits = DELAY_TIERS.findLast((tier) => tier.delayMs <= remainingMs);
  return (fits ?? DELAY_TIERS[0]!).topic;
}
