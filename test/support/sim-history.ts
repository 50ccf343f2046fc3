import type { RateLimitWindow } from "../../src/domain/enums.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import type { Plan } from "./sim-plan.ts";
import type { SimWorld } from "./sim-world.ts";

interface LimitPeriod {
  readonly fromMs: number;
  readonly max: number | null;
  readonly window: RateLimitWindow | null;
}

/** What operators and the receiver did to one destination. */
export interface History {
  readonly id: string;
  readonly endpointId: string;
  readonly limits: LimitPeriod[];
  /** Start and end of each pause. */
  readonly paused: [number, number][];
  wasAlwaysActive: boolean;
  wasAlwaysOk: boolean;
  deletedAtMs: number | null;
  /** Healthy, unlimited and never changed: what others do must not delay it. */
  readonly isFast: boolean;
}

export interface Replay {
  readonly event: EventRecord;
  readonly destinationId: string;
  readonly run: string;
  readonly atMs: number;
}

/** A time during which a process was frozen. */
export interface Freeze {
  readonly process: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Everything that the invariants are checked against. */
export interface Story {
  readonly plan: Plan;
  readonly world: SimWorld;
  readonly histories: ReadonlyMap<string, History>;
  readonly events: readonly EventRecord[];
  readonly replays: readonly Replay[];
  /** When a process came, went or froze, or partitions moved. */
  readonly disturbedAt: readonly number[];
  readonly freezes: readonly Freeze[];
  /** How the world failed to come to rest, or null. */
  readonly stuck: string | null;
}

export function runOf(eventId: string, destinationId: string, run: string): string {
  return `${eventId}|${destinationId}|${run}`;
}

/** Returns the runs that must end, going by the log and by what was put in. */
export function expectedRuns(story: Omit<Story, "stuck">): Set<string> {
  const runs = new Set<string>();
  for (const outcome of story.world.outcomes())
    if (outcome.kind === "fanout")
      for (const id of outcome.destinationIds) runs.add(runOf(outcome.eventId, id, outcome.run));
  for (const { event, destinationId, run } of story.replays)
    runs.add(runOf(event.id, destinationId, run));
  for (const { id, endpointId, wasAlwaysActive } of story.histories.values())
    if (wasAlwaysActive)
      for (const event of story.events)
        if (event.signatureValid && event.endpointId === endpointId)
          runs.add(runOf(event.id, id, "event"));
  return runs;
}
