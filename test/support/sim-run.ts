import { createHash } from "node:crypto";
import { liveThrough } from "./sim-chaos.ts";
import { violationsOf } from "./sim-invariants.ts";
import type { Story } from "./sim-history.ts";

/** Runs one seed. @returns what was violated, empty when all promises held */
export async function runSeed(seed: number): Promise<string[]> {
  return violationsOf(await liveThrough(seed));
}

/** Digests everything that receivers saw and the log holds, so that two runs of one seed can be compared. */
export function digestOf({ world }: Story): string {
  const hash = createHash("sha256");
  for (const { destinationId, eventId, attempt, atMs, process } of world.seen)
    hash.update(`${destinationId} ${eventId} ${attempt} ${atMs} ${process}\n`);
  for (const topic of ["events", "tasks", "attempts", "held", "limits"] as const)
    for (const { partition, offset, value, appendedAtMs } of world.store.all(topic))
      hash.update(`${topic} ${partition} ${offset} ${appendedAtMs} `).update(value);
  return hash.digest("hex");
}
