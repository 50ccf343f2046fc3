import type { SharedDelivery } from "../shared-delivery.ts";
import type { Claim } from "./claim.ts";

/**
 * Returns how long a new owner waits before it starts, ms. The log assigns a partition only once the previous owner's session
 * is over, by that owner's clock too, so that it starts nothing any more. Only its tries in flight are left: the wait counts
 * from the assignment, or from an earlier one that already waits for them.
 */
export function remainingTakeoverWaitMs(
  { ports, options }: Pick<SharedDelivery, "ports" | "options">,
  unreleased: Claim | null,
  ownedForMs: number,
): number {
  if (unreleased === null) return 0;
  const maxMs = Math.max(0, options.takeoverWaitMs - ownedForMs);
  if (unreleased.waitsUntilMs === null) return maxMs;
  return Math.min(maxMs, Math.max(0, unreleased.waitsUntilMs - ports.clock.now()));
}
