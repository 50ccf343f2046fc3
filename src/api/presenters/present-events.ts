import { decodeUtf8 } from "../../domain/decode-utf8.ts";
import type {
  AttemptView,
  EventDetail,
  EventListItem,
  FacetCounts,
} from "../../domain/event-query.ts";
import { visitInTurns } from "../../domain/next-turn.ts";
import { formatTimestamp } from "../envelope.ts";
import type { AttemptJson, EventDetailView, EventView, FacetsView } from "../schemas/event.ts";
import { formatNullable } from "./present-resources.ts";

export function presentEvent(event: EventListItem): EventView {
  return {
    id: event.id,
    endpoint_id: event.endpointId,
    org_id: event.orgId,
    provider: event.provider,
    received_at: formatTimestamp(event.receivedAtMs),
    signature_valid: event.signatureValid,
    verification_error: event.verificationError,
    payload_size_bytes: event.payloadSizeBytes,
    delivery_summary: event.deliverySummary,
  };
}

export async function presentAttempts(attempts: readonly AttemptView[]): Promise<AttemptJson[]> {
  const presented: AttemptJson[] = [];
  await visitInTurns(attempts, (attempt) => presented.push(presentAttempt(attempt)));
  return presented;
}

function presentAttempt(attempt: AttemptView): AttemptJson {
  return {
    id: attempt.id,
    event_id: attempt.eventId,
    destination_id: attempt.destinationId,
    endpoint_id: attempt.endpointId,
    org_id: attempt.orgId,
    attempted_at: formatTimestamp(attempt.attemptedAtMs),
    attempt_number: attempt.attemptNumber,
    receiver_url: attempt.receiverUrl,
    http_status: attempt.httpStatus,
    response_body: attempt.responseBody,
    latency_ms: attempt.latencyMs,
    status: attempt.status,
    next_retry_at: formatNullable(attempt.nextRetryAtMs),
  };
}

export async function presentEventDetail(detail: EventDetail): Promise<EventDetailView> {
  const { event } = detail;
  return {
    ...presentEvent(event),
    method: event.method,
    path: event.path,
    query: event.query,
    headers: event.headers.map(([name, value]) => ({ name, value })),
    content_type: event.contentType,
    source_ip: event.sourceIp,
    ...encodePayload(event.body),
    delivery_summary: detail.deliverySummary,
    attempts: await presentAttempts(detail.attempts),
  };
}

/** Encodes a payload as text where that is lossless, as base64 otherwise. */
export function encodePayload(
  body: Uint8Array,
): Pick<EventDetailView, "payload" | "payload_encoding"> {
  const text = decodeUtf8(body);
  return text === null
    ? { payload: Buffer.from(body).toString("base64"), payload_encoding: "base64" }
    : { payload: text, payload_encoding: "utf8" };
}

export function presentFacets(facets: FacetCounts): FacetsView {
  return {
    total_events: facets.totalEvents,
    by_provider: [...facets.byProvider],
    by_signature_valid: [...facets.bySignatureValid],
    by_attempt_status: [...facets.byAttemptStatus],
  };
}
