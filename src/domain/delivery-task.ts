import type { EventRecord } from "./event.ts";
import type { LimitPace } from "./rate-limit.ts";

export type Trigger = "event" | "replay";

/** The run of an event's own fan-out; a replay's run is a ULID. */
export const EVENT_RUN = "event";

/** A task of this destination is a fan-out that is still to be made: the configuration could not be had. */
export const FAN_OUT_LATER = "";

/**
 * One try that is to be made: self-contained, so that a delay tier needs nothing else.
 * Identity of the try: (event.id, destinationId, run, tryNumber); `deferrals` counts how often it was put off.
 */
export interface DeliveryTask {
  readonly event: EventRecord;
  readonly destinationId: string;
  readonly run: string;
  readonly trigger: Trigger;
  /** 1 for the first try of the run; `x-relay-attempt`. */
  readonly tryNumber: number;
  /** How often this very try was put off (rate limit, full lane, open circuit, held). */
  readonly deferrals: number;
  /** The destination's rate limit when that put it off, the last time; null when something else did. */
  readonly limitedBy: LimitPace | null;
  /** Not before this time. */
  readonly dueAtMs: number;
  /** When the run began: retention counts from here, and the circuit breaker's deadline at the earliest. */
  readonly runStartedAtMs: number;
}
