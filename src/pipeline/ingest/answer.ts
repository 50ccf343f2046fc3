import type { IngestOutcome } from "./outcome.ts";
import type { Answer } from "./request.ts";

/** After how many seconds a sender that got 503 may come back. */
const RETRY_AFTER_SECONDS = "1";

/** The contract's envelope of an outcome; `timeMs` is the answer's `timestamp`. */
export function encodeAnswer(outcome: IngestOutcome, timeMs: number): Answer {
  switch (outcome.kind) {
    case "accepted":
      return {
        status: "200 OK",
        eventId: outcome.eventId,
        extraHeader: null,
        body: `{"data":{"event_id":"${outcome.eventId}"},"timestamp":"${formatTime(timeMs)}"}`,
      };
    case "verification_failed":
      return recorded("401 Unauthorized", outcome, timeMs);
    case "source_not_allowed":
    case "endpoint_disabled":
      return recorded("403 Forbidden", outcome, timeMs);
    case "endpoint_paused":
      return recorded("409 Conflict", outcome, timeMs);
    case "payload_too_large":
      return recorded("413 Payload Too Large", outcome, timeMs);
    case "rate_limited":
      return {
        ...recorded("429 Too Many Requests", outcome, timeMs),
        extraHeader: ["retry-after", String(outcome.retryAfterSeconds)],
      };
    case "not_found":
      return failure("404 Not Found", "not_found", "No endpoint has this URL", null, timeMs);
    case "method_not_allowed":
      return failure(
        "405 Method Not Allowed",
        "method_not_allowed",
        `Use one of ${outcome.allow}`,
        ["allow", outcome.allow],
        timeMs,
      );
    case "unavailable":
      return failure(
        "503 Service Unavailable",
        "unavailable",
        "The webhook was not taken: send it again",
        ["retry-after", RETRY_AFTER_SECONDS],
        timeMs,
      );
    default:
      return outcome satisfies never;
  }
}

function recorded(
  status: string,
  outcome: { readonly kind: string; readonly eventId: string; readonly message: string },
  timeMs: number,
): Answer {
  const answer = failure(status, outcome.kind, outcome.message, null, timeMs);
  return { ...answer, eventId: outcome.eventId };
}

function failure(
  status: string,
  code: string,
  message: string,
  extraHeader: Answer["extraHeader"],
  timeMs: number,
): Answer {
  const body = JSON.stringify({ error: { code, message }, timestamp: formatTime(timeMs) });
  return { status, eventId: null, extraHeader, body };
}

function formatTime(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
