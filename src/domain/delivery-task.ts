import type { EventRecord } from "./event.ts";
import type { LimitPace } from "./rate-limit.ts";

export type Trigger = "event" | "replay";

/** The run of an event's own fan-out; a replay's run is a ULID. */
export const EVENT_RUN = "event";

/** Destination of a task that stands for a fan-out still to be made, because the configuration was unavailable. */
export const FANOUT_LATER = "";

/** One try that is to be made, self-contained: a delay tier needs nothing else. */
export interface DeliveryTask {
  readonly event: EventRecord;
  readonly destinationId: string;
  readonly run: string;
  readonly trigger: Trigger;
  /** 1 for the first try of the run; `x-relay-attempt`. */
  readonly tryNumber: number;
  /** How often this very try was put off (rate limit, full lane, open circuit, held). */
  readonly deferrals: number;
  /** The destination's rate limit if that is what last put this try off; null if something else did. */
  readonly limitedBy: LimitPace | null;
  /** When this try was put off, if its receiver was what last did so: its lane was full, or its circuit open. Null if something else did. */
  readonly putOffByReceiverAtMs: number | null;
  /** Earliest time of the try. */
  readonly dueAtMs: number;
  /** When the run began: retention counts from here, and the circuit breaker's deadline from here or later. */
  readonly runStartedAtMs: number;
}

/** Makes the first try of an event's own run, due at once even if the clock is behind the one that stamped the event. */
export function firstTry(event: EventRecord, destinationId: string, nowMs: number): DeliveryTask {
  return {
    event,
    destinationId,
    run: EVENT_RUN,
    trigger: "event",
    tryNumber: 1,
    deferrals: 0,
    limitedBy: null,
    putOffByReceiverAtMs: null,
    dueAtMs: Math.min(event.receivedAtMs, nowMs),
    runStartedAtMs: event.receivedAtMs,
  };
}

/** Makes the first try of a replay, whose run begins now. */
export function firstTryOfReplay(
  event: EventRecord,
  destinationId: string,
  run: string,
  nowMs: number,
): DeliveryTask {
  return {
    ...firstTry(event, destinationId, nowMs),
    run,
    trigger: "replay",
    dueAtMs: nowMs,
    runStartedAtMs: nowMs,
  };
}
