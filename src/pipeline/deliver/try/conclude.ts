import type { Attempt } from "../../../domain/attempt.ts";
import { retryDelayMs } from "../../../domain/backoff.ts";
import type { Random } from "../../../domain/clock.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import { attemptId } from "../../../domain/ids.ts";
import type { FollowUp } from "../../../domain/outcome.ts";
import { parseRetryAfterMs } from "../../../domain/retry-after.ts";
import { tryKey } from "../../../domain/run-keys.ts";
import type { Reply } from "../../../domain/outbound-request.ts";
import { storedText } from "./stored-text.ts";

/** The end of a try: its row, and what follows. */
export interface Conclusion {
  readonly attempt: Attempt;
  readonly followUp: FollowUp | null;
  /** How long its request took, ms; null if none was made. */
  readonly tookMs: number | null;
}

const GONE = 410;

/** Concludes a try from its reply: delivered on 2xx only; otherwise a retry while there are any left; 410 ends the run. */
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
  const tookMs = reply.latencyMs;
  const end: TryEnd = {
    attemptedAtMs: startedAtMs,
    receiverUrl: config.receiverUrl,
    httpStatus: reply.kind === "response" ? reply.status : 0,
    responseBody: reply.kind === "response" ? reply.body : reply.reason,
    latencyMs: Math.max(0, Math.round(reply.latencyMs)),
  };
  if (isSuccess(reply))
    return { attempt: rowOf(task, end, "delivered", null), followUp: null, tookMs };
  if (isGone(reply) || task.tryNumber > config.retryMaxAttempts)
    return { attempt: rowOf(task, end, "dead", null), followUp: null, tookMs };
  const dueAtMs =
    input.nowMs +
    retryDelayMs({
      backoff: config.retryBackoff,
      retry: task.tryNumber,
      baseMs: input.retryBaseMs,
      retryAfterMs: parseRetryAfterMs(reply, input.nowMs),
      random: input.random,
    });
  return {
    attempt: rowOf(task, end, reply.kind === "timeout" ? "timeout" : "failed", dueAtMs),
    followUp: { tryNumber: task.tryNumber + 1, deferrals: 0, dueAtMs },
    tookMs,
  };
}

/** Ends the run without a request; `reason` says why. */
export function concludeDead(
  task: DeliveryTask,
  receiverUrl: string,
  reason: string,
  nowMs: number,
): Conclusion {
  const end = withoutRequest(receiverUrl, reason, nowMs);
  return { attempt: rowOf(task, end, "dead", null), followUp: null, tookMs: null };
}

/** Concludes that the rate limit put the try off until `dueAtMs`. */
export function concludeRateLimited(
  task: DeliveryTask,
  receiverUrl: string,
  dueAtMs: number,
  nowMs: number,
): Conclusion & { readonly followUp: FollowUp } {
  const end = withoutRequest(receiverUrl, "put off by the destination's rate limit", nowMs);
  return {
    attempt: rowOf(task, end, "rate_limited", dueAtMs),
    followUp: { tryNumber: task.tryNumber, deferrals: task.deferrals + 1, dueAtMs },
    tookMs: null,
  };
}

export function isSuccess(reply: Reply): boolean {
  return reply.kind === "response" && reply.status >= 200 && reply.status < 300;
}

/** Returns whether the receiver says that it is gone for good: RFC 9110 section 15.5.11. */
export function isGone(reply: Reply): boolean {
  return reply.kind === "response" && reply.status === GONE;
}

/** What a row says of its try, apart from which try it is and how it ended. */
type TryEnd = Pick<
  Attempt,
  "attemptedAtMs" | "receiverUrl" | "httpStatus" | "responseBody" | "latencyMs"
>;

function withoutRequest(receiverUrl: string, responseBody: string, attemptedAtMs: number): TryEnd {
  return { attemptedAtMs, receiverUrl, httpStatus: 0, responseBody, latencyMs: 0 };
}

function rowOf(
  task: DeliveryTask,
  end: TryEnd,
  status: Attempt["status"],
  nextRetryAtMs: number | null,
): Attempt {
  const { event, destinationId, run, tryNumber, deferrals } = task;
  // The last owner may still make the try that the next one puts off: neither row may replace the other.
  const kind = status === "rate_limited" ? "|put off" : "";
  const identity = `${tryKey(task)}|${deferrals}${kind}`;
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
    ...end,
    responseBody: storedText(end.responseBody),
    status,
    nextRetryAtMs,
  };
}
