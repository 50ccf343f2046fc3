import type { SharedDelivery } from "../shared-delivery.ts";
import type { Claim } from "./claim.ts";

/**
 * How long a new owner waits before it starts, ms. The log assigns only when the session of the owner before is over, by that owner's
 * clock too: it starts nothing any more. What is left are its tries in flight, from the assignment on, or from an earlier one that
 * waits for them.
 */
export function takeoverWaitMs(
  { ports, options }: Pick<SharedDelivery, "ports" | "options">,
  unreleased: Claim | null,
  ownedForMs: number,
): number {
  if (unreleased === null) return 0;
  const longestMs = Math.max(0, options.takeoverWaitMs - ownedForMs);
  if (unreleased.waitsUntilMs === null) return longestMs;
  return Math.min(longestMs, Math.max(0, unreleased.waitsUntilMs - ports.clock.now()));
}
