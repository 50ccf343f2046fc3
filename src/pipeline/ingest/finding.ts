import type { Refusal, RefusalReason } from "../../domain/verification.ts";
import type { IngestOutcome, RecordedKind } from "./outcome.ts";

/** What the request turned out to be, as recorded. */
export interface Finding {
  readonly kind: RecordedKind;
  /** Recorded as `EventRecord.reason`, and `error` as `EventRecord.verificationError`. */
  readonly reason: string;
  readonly error: string | null;
}

/** Reasons that refuse the sender and not what was sent: answered 403 instead of 401. */
const OF_SOURCE: ReadonlySet<RefusalReason> = new Set([
  "ip_unknown",
  "ip_not_allowed",
  "ip_allowlist_empty",
] as const);
export const ACCEPTED: Finding = { kind: "accepted", reason: "ok", error: null };
export const PAUSED: Finding = {
  kind: "endpoint_paused",
  reason: "endpoint_paused",
  error: "The endpoint is paused: resume it to accept webhooks again",
};
export const DISABLED: Finding = {
  kind: "endpoint_disabled",
  reason: "endpoint_disabled",
  error: "The endpoint is disabled: resume it to accept webhooks again",
};

export function rejection({ reason, message }: Refusal): Finding {
  const kind = OF_SOURCE.has(reason) ? "source_not_allowed" : "verification_failed";
  return { kind, reason, error: message };
}

export function outcomeOf(
  finding: Finding,
  eventId: string,
  retryAfterSeconds: number,
): IngestOutcome {
  const { kind } = finding;
  if (kind === "accepted") return { kind, eventId };
  const message = finding.error ?? finding.reason;
  return kind === "rate_limited"
    ? { kind, eventId, message, retryAfterSeconds }
    : { kind, eventId, message };
}
