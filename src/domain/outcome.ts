import type { Attempt } from "./attempt.ts";
import type { DeliveryTask } from "./delivery-task.ts";
import type { Provider } from "./enums.ts";
import type { EventRecord } from "./event.ts";
import type { LimitPace } from "./rate-limit.ts";

/** Slower than any real limit. */
const UNKNOWN_PACE: LimitPace = { perHour: 1e-9, windowMs: 0 };

/** What follows the end of a try: the next try, or the same one if it was put off. */
export interface FollowUp {
  readonly tryNumber: number;
  readonly deferrals: number;
  readonly dueAtMs: number;
}

/** Returns the task that follows the end of `task`. A rate limit's is the only end that leaves the same try to be made. */
export function followedBy(task: DeliveryTask, followUp: FollowUp): DeliveryTask {
  const limitedBy = followUp.deferrals > 0 ? (task.limitedBy ?? UNKNOWN_PACE) : null;
  return { ...task, ...followUp, limitedBy, putOffByReceiverAtMs: null };
}

/**
 * A record of the `attempts` log. `attempt` is the end of a try: attempt row and follow-up in one record, so that both are
 * durable or neither. `fanout` says which destinations an event (or replay) was given to. `released` marks that an owner of
 * this partition stopped in order: the next owner need not wait.
 */
export type OutcomeRecord =
  | FanoutRecord
  | { readonly kind: "attempt"; readonly attempt: Attempt; readonly followUp: FollowUp | null }
  | { readonly kind: "released"; readonly ownerId: string; readonly atMs: number };

export interface FanoutRecord {
  readonly kind: "fanout";
  readonly eventId: string;
  readonly orgId: string;
  readonly endpointId: string;
  readonly provider: Provider;
  readonly signatureValid: boolean;
  readonly eventReceivedAtMs: number;
  readonly run: string;
  readonly destinationIds: readonly string[];
  readonly atMs: number;
}

/** Makes the record that a run of the event goes to these destinations; `atMs` is when that was decided. */
export function fanoutOf(
  event: EventRecord,
  chosen: Pick<FanoutRecord, "run" | "destinationIds" | "atMs">,
): FanoutRecord {
  return {
    kind: "fanout",
    eventId: event.id,
    orgId: event.orgId,
    endpointId: event.endpointId,
    provider: event.provider,
    signatureValid: event.signatureValid,
    eventReceivedAtMs: event.receivedAtMs,
    run: chosen.run,
    destinationIds: chosen.destinationIds,
    atMs: chosen.atMs,
  };
}
