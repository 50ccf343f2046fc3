import type { Attempt } from "../../domain/attempt.ts";
import type { FollowUp, OutcomeRecord } from "../../domain/outcome.ts";
import { decodeRecord, encodeRecord, RECORD_PREFIX_BYTES, writeRecordPrefix } from "./codec.ts";
import { maxTextBytes, MessagePackWriter } from "./message-pack-writer.ts";

type AttemptOutcome = Extract<OutcomeRecord, { kind: "attempt" }>;
type AttemptHead = [
  kind: "attempt",
  id: Attempt["id"],
  eventId: Attempt["eventId"],
  destinationId: Attempt["destinationId"],
  endpointId: Attempt["endpointId"],
  orgId: Attempt["orgId"],
  provider: Attempt["provider"],
  signatureValid: Attempt["signatureValid"],
  eventReceivedAtMs: Attempt["eventReceivedAtMs"],
  run: Attempt["run"],
  trigger: Attempt["trigger"],
  tryNumber: Attempt["tryNumber"],
  deferral: Attempt["deferral"],
  attemptedAtMs: Attempt["attemptedAtMs"],
  receiverUrl: Attempt["receiverUrl"],
  httpStatus: Attempt["httpStatus"],
  responseBody: Attempt["responseBody"],
  latencyMs: Attempt["latencyMs"],
  status: Attempt["status"],
  nextRetryAtMs: Attempt["nextRetryAtMs"],
  followUp: FollowUpFields | null,
];
type FollowUpFields = [tryNumber: number, deferrals: number, dueAtMs: number];
const ATTEMPT_FIELDS = 21;
const FOLLOW_UP_FIELDS = 3;
/** Room for numbers, flags and the heads of both arrays. */
const FIXED_ATTEMPT_BYTES = 128;

export function encodeOutcome(outcome: OutcomeRecord): Buffer {
  return outcome.kind === "attempt"
    ? encodeAttempt(outcome)
    : encodeRecord([outcome.kind, outcome], []);
}

/** @throws {Error} on a foreign record */
export function decodeOutcome(value: Uint8Array): OutcomeRecord {
  const { head } = decodeRecord(value);
  switch (head[0]) {
    case "attempt":
      return toAttempt(head as AttemptHead);
    case "fanout":
    case "released":
      return head[1] as OutcomeRecord;
    default:
      throw new Error(`log record of unknown kind ${nameOf(head[0])} among the outcomes`);
  }
}

/**
 * Names an unknown kind for an error that is logged, without quoting what may stand in its place, such as a whole attempt with
 * its receiver's answer.
 */
function nameOf(kind: unknown): string {
  return typeof kind === "string" && kind.length <= 40 ? JSON.stringify(kind) : typeof kind;
}

/** Writes the fields in the order of `AttemptHead`, by hand: every delivery writes one. */
function encodeAttempt({ attempt, followUp }: AttemptOutcome): Buffer {
  const record = Buffer.allocUnsafe(RECORD_PREFIX_BYTES + maxHeadBytes(attempt));
  const out = new MessagePackWriter(record, RECORD_PREFIX_BYTES);
  out.array(ATTEMPT_FIELDS);
  out.text("attempt");
  out.text(attempt.id);
  out.text(attempt.eventId);
  out.text(attempt.destinationId);
  out.text(attempt.endpointId);
  out.text(attempt.orgId);
  out.text(attempt.provider);
  out.flag(attempt.signatureValid);
  out.number(attempt.eventReceivedAtMs);
  out.text(attempt.run);
  out.text(attempt.trigger);
  out.number(attempt.tryNumber);
  out.number(attempt.deferral);
  out.number(attempt.attemptedAtMs);
  out.text(attempt.receiverUrl);
  out.number(attempt.httpStatus);
  out.text(attempt.responseBody);
  out.number(attempt.latencyMs);
  out.text(attempt.status);
  out.optionalNumber(attempt.nextRetryAtMs);
  if (followUp === null) out.optionalNumber(null);
  else {
    out.array(FOLLOW_UP_FIELDS);
    out.number(followUp.tryNumber);
    out.number(followUp.deferrals);
    out.number(followUp.dueAtMs);
  }
  writeRecordPrefix(record, 0, out.at - RECORD_PREFIX_BYTES);
  return record.subarray(0, out.at);
}

function maxHeadBytes(attempt: Attempt): number {
  return (
    FIXED_ATTEMPT_BYTES +
    maxTextBytes(attempt.id) +
    maxTextBytes(attempt.eventId) +
    maxTextBytes(attempt.destinationId) +
    maxTextBytes(attempt.endpointId) +
    maxTextBytes(attempt.orgId) +
    maxTextBytes(attempt.provider) +
    maxTextBytes(attempt.run) +
    maxTextBytes(attempt.trigger) +
    maxTextBytes(attempt.receiverUrl) +
    maxTextBytes(attempt.responseBody) +
    maxTextBytes(attempt.status)
  );
}

function toAttempt(head: AttemptHead): AttemptOutcome {
  const [
    ,
    id,
    eventId,
    destinationId,
    endpointId,
    orgId,
    provider,
    signatureValid,
    eventReceivedAtMs,
    run,
    trigger,
    tryNumber,
    deferral,
    attemptedAtMs,
    receiverUrl,
    httpStatus,
    responseBody,
    latencyMs,
    status,
    nextRetryAtMs,
    followUp,
  ] = head;
  return {
    kind: "attempt",
    attempt: {
      id,
      eventId,
      destinationId,
      endpointId,
      orgId,
      provider,
      signatureValid,
      eventReceivedAtMs,
      run,
      trigger,
      tryNumber,
      deferral,
      attemptedAtMs,
      receiverUrl,
      httpStatus,
      responseBody,
      latencyMs,
      status,
      nextRetryAtMs,
    },
    followUp: followUp === null ? null : toFollowUp(followUp),
  };
}

function toFollowUp([tryNumber, deferrals, dueAtMs]: FollowUpFields): FollowUp {
  return { tryNumber, deferrals, dueAtMs };
}
