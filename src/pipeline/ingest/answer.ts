import type { IngestOutcome } from "./outcome.ts";
import type { Answer } from "../../domain/incoming-request.ts";

/** How soon a sender that got 503 may come back. */
const RETRY_AFTER_SECONDS = "1";

/** Makes a formatter of times as RFC 3339 that keeps its last result: a burst asks for the same millisecond over and over. */
export function makeTimeFormatter(): (timeMs: number) => string {
  let lastMs = Number.NaN;
  let text = "";
  return (timeMs) => {
    if (timeMs !== lastMs) {
      lastMs = timeMs;
      text = new Date(timeMs).toISOString();
    }
    return text;
  };
}

/** Wraps an outcome in the contract's envelope. */
export function encodeAnswer(outcome: IngestOutcome, timestamp: string): Answer {
  switch (outcome.kind) {
    case "accepted":
      return {
        status: "200 OK",
        eventId: outcome.eventId,
        extraHeader: null,
        body: `{"data":{"event_id":"${outcome.eventId}"},"timestamp":"${timestamp}"}`,
      };
    case "verification_failed":
      return recorded("401 Unauthorized", outcome, timestamp);
    case "source_not_allowed":
    case "endpoint_disabled":
      return recorded("403 Forbidden", outcome, timestamp);
    case "endpoint_paused":
      return recorded("409 Conflict", outcome, timestamp);
    case "payload_too_large":
      return recorded("413 Payload Too Large", outcome, timestamp);
    case "rate_limited":
      return {
        ...recorded("429 Too Many Requests", outcome, timestamp),
        extraHeader: ["retry-after", String(outcome.retryAfterSeconds)],
      };
    case "not_found":
      return failure("404 Not Found", "not_found", "No endpoint has this URL", null, timestamp);
    case "method_not_allowed":
      return failure(
        "405 Method Not Allowed",
        "method_not_allowed",
        `Use one of ${outcome.allow}`,
        ["allow", outcome.allow],
        timestamp,
      );
    case "unavailable":
      return failure(
        "503 Service Unavailable",
        "unavailable",
        "The webhook was not taken: send it again",
        ["retry-after", RETRY_AFTER_SECONDS],
        timestamp,
      );
    default:
      return outcome satisfies never;
  }
}

function recorded(
  status: string,
  outcome: { readonly kind: string; readonly eventId: string; readonly message: string },
  timestamp: string,
): Answer {
  const answer = failure(status, outcome.kind, outcome.message, null, timestamp);
  return { ...answer, eventId: outcome.eventId };
}

function failure(
  status: string,
  code: string,
  message: string,
  extraHeader: Answer["extraHeader"],
  timestamp: string,
): Answer {
  const body = JSON.stringify({ error: { code, message }, timestamp });
  return { status, eventId: null, extraHeader, body };
}
