import type { Random } from "../../domain/clock.ts";

/** How long until a task that lacks its configuration asks for it again; each task of a lane gets a slot of its own. */
export const CONFIG_RETRY_MS = 5_000;

/** Returns that wait for tasks outside a lane: up to twice as long, so that they do not all come back at once. */
export function jitteredConfigRetryMs(random: Random): number {
  return CONFIG_RETRY_MS * (1 + random());
}
