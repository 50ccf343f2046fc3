import type { RelayConfig } from "../config/config.ts";

const DAY_MS = 86_400_000;

/** Returns how long events and attempts are kept, in ms. */
export function retentionMsOf({ retentionDays }: Pick<RelayConfig, "retentionDays">): number {
  return retentionDays * DAY_MS;
}
