import type { Clock } from "../../../domain/clock.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../../domain/destination.ts";
import { DESTINATION_DELETED, HELD_PAST_RETENTION } from "../try/dead-reasons.ts";
import type { HeldIndex } from "./held-index.ts";

/** Maximum tasks of one destination that are let go at a time. */
const CHUNK_TASKS = 200;

export interface ReleaseRules {
  readonly clock: Clock;
  readonly retentionMs: number;
  lookUp(destinationId: string): MaybeLater<Lookup<DestinationConfig>>;
  hasRoom(destinationId: string): boolean;
}

/** How held runs end without a request. */
export interface HeldEnd {
  readonly config: DestinationConfig | null;
  readonly reason: string;
}

/** Held tasks of a destination that may be let go: they end, or (`end` null) go back to `tasks`. */
export interface Release {
  readonly destinationId: string;
  /** Ascending. */
  readonly offsets: readonly number[];
  readonly end: HeldEnd | null;
}

/** Returns what may be let go of a destination now. */
export async function chooseRelease(
  rules: ReleaseRules,
  index: HeldIndex,
  destinationId: string,
): Promise<Release | "later" | "no"> {
  const lookup = await rules.lookUp(destinationId);
  switch (lookup.kind) {
    case "unavailable":
      return "no";
    case "missing": {
      const end = { config: null, reason: DESTINATION_DELETED };
      return { destinationId, offsets: index.next(destinationId, CHUNK_TASKS), end };
    }
    case "found": {
      const begunBeforeMs = rules.clock.now() - rules.retentionMs;
      const expired = index.begunBefore(destinationId, begunBeforeMs, CHUNK_TASKS);
      const end = { config: lookup.value, reason: HELD_PAST_RETENTION };
      if (expired.length > 0) return { destinationId, offsets: expired, end };
      if (lookup.value.status !== "active") return "no";
      if (!rules.hasRoom(destinationId)) return "later";
      return { destinationId, offsets: index.next(destinationId, CHUNK_TASKS), end: null };
    }
    default:
      return lookup satisfies never;
  }
}
