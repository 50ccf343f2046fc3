import type { Attempt } from "../../domain/attempt.ts";
import { retryDelayMs } from "../../domain/backoff.ts";
import type { Random } from "../../domain/clock.ts";
import type { DeliveryTask } from "../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../domain/destination.ts";
import { attemptId } from "../../domain/ids.ts";
import type { FollowUp } from "../../domain/outcome.ts";
import { parseRetryAfterMs } from "../../domain/retry-after.ts";
import type { Reply } from "./ports.ts";

/** The end of a try: its row, and what follows. */
export interface Conclusion {
  readonly attempt: Attempt;
  readonly followUp: FollowUp | null;
}

const GONE = 410;

/** What a reply means: delivered on 2xx only; a retry while there are any left; 410 ends the run. */
export function concludeTry(input: {
  readonly task: DeliveryTask;
  readonly config: DestinationConfig;
  readonly reply: Reply;
  readonly startedAtMs: number;
  readonly nowMs: number;
  readonly retryBaseMs: number;
  readonly random: Random;
}): Conclusion {
  const { task, config, reply, startedAtMs } = input;
  const row = {
    ...rowOf(task, config.receiverUrl, startedAtMs),
    httpStatus: reply.kind === "response" ? reply.status : 0,
    responseBody: reply.kind === "response" ? reply.body : reply.reason,
    latencyMs: Math.max(0, Math.round(reply.latencyMs)),
  };
  if (isSuccess(reply))
    return { attempt: { ...row, status: "delivered", nextRetryAtMs: null }, followUp: null };
  if (isGone(reply) || task.tryNumber > config.retryMaxAttempts)
    return { attempt: { ...row, status: "dead", nextRetryAtMs: null }, followUp: null };
  const dueAtMs =
    input.nowMs +
    retryDelayMs({
      backoff: config.retryBackoff,
      retry: task.tryNumber,
      baseMs: input.retryBaseMs,
      retryAfterMs:
        reply.kind === "response" ? parseRetryAfterMs(reply.retryAfter, input.nowMs) : null,
      random: input.random,
    });
  return {
    attempt: {
      ...row,
      status: reply.kind === "timeout" ? "timeout" : "failed",
      nextRetryAtMs: dueAtMs,
    },
    followUp: { tryNumber: task.tryNumber + 1, deferrals: 0, dueAtMs },
  };
}

/** The run ends without a request: `reason` says why. */
export function concludeDead(
  task: DeliveryTask,
  receiverUrl: string,
  reason: string,
  nowMs: number,
): Conclusion {
  return {
    attempt: {
      ...rowOf(task, receiverUrl, nowMs),
      responseBody: reason,
      status: "dead",
      nextRetryAtMs: null,
    },
    followUp: null,
  };
}

/** The rate limit put the try off until `dueAtMs`. */
export function concludeRateLimited(
  task: DeliveryTask,
  receiverUrl: string,
  dueAtMs: number,
  nowMs: number,
): Conclusion {
  return {
    attempt: {
      ...rowOf(task, receiverUrl, nowMs),
      responseBody: "put off by the destination's rate limit",
      status: "rate_limited",
      nextRetryAtMs: dueAtMs,
    },
    followUp: { tryNumber: task.tryNumber, deferrals: task.deferrals + 1, dueAtMs },
  };
}

export function isSuccess(reply: Reply): boolean {
  return reply.kind === "response" && reply.status >= 200 && reply.status < 300;
}

/** The receiver says that it will not be back: RFC 9110 section 15.5.11. */
export function isGone(reply: Reply): boolean {
  return reply.kind === "response" && reply.status === GONE;
}

function rowOf(task: DeliveryTask, receiverUrl: string, attemptedAtMs: number) {
  const { event, destinationId, run, tryNumber, deferrals } = task;
  const identity = `${event.id}|${destinationId}|${run}|${tryNumber}|${deferrals}`;
  return {
    id: attemptId(event.receivedAtMs, identity),
    eventId: event.id,
    destinationId,
    endpointId: event.endpointId,
    orgId: event.orgId,
    provider: event.provider,
    signatureValid: event.signatureValid,
    eventReceivedAtMs: event.receivedAtMs,
    run,
    trigger: task.trigger,
    tryNumber,
    deferral: deferrals,
    attemptedAtMs,
    receiverUrl,
    httpStatus: 0,
    responseBody: "",
    latencyMs: 0,
  };
}
