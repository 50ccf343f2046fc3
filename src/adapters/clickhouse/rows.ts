import type { AttemptStatus, Provider } from "../../domain/enums.ts";
import type { EventListItem } from "../../domain/event-query.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { StoredAttempt } from "../../domain/event-store.ts";
import { fromHeaderText } from "./header-text.ts";

/** Rows as ClickHouse writes them in JSONEachRow. */
export interface ItemJson {
  readonly id: string;
  readonly endpoint_id: string;
  readonly org_id: string;
  readonly provider: Provider;
  readonly received_at_ms: number;
  readonly signature_valid: boolean;
  readonly verification_error: string | null;
  readonly payload_size: number;
}

export interface EventJson extends ItemJson {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: string;
  readonly content_type: string | null;
  readonly source_ip: string;
  readonly reason: string;
  readonly body_stored: boolean;
  readonly payload_base64: string;
}

export interface AttemptJson {
  readonly id: string;
  readonly event_id: string;
  readonly destination_id: string;
  readonly endpoint_id: string;
  readonly org_id: string;
  readonly attempted_at_ms: number;
  readonly receiver_url: string;
  readonly http_status: number;
  readonly response_body: string;
  readonly latency_ms: number;
  readonly status: AttemptStatus;
  readonly next_retry_at_ms: number | null;
}

export function toItem(row: ItemJson): EventListItem {
  return {
    id: row.id,
    endpointId: row.endpoint_id,
    orgId: row.org_id,
    provider: row.provider,
    receivedAtMs: row.received_at_ms,
    signatureValid: row.signature_valid,
    verificationError: row.verification_error,
    payloadSizeBytes: row.payload_size,
  };
}

export function toEvent(row: EventJson): EventRecord {
  return {
    ...toItem(row),
    method: row.method,
    path: row.path,
    query: row.query,
    headers: fromHeaderText(row.headers),
    contentType: row.content_type,
    sourceIp: row.source_ip,
    reason: row.reason,
    bodyStored: row.body_stored,
    body: Buffer.from(row.payload_base64, "base64"),
  };
}

export function toAttempt(row: AttemptJson): StoredAttempt {
  return {
    id: row.id,
    eventId: row.event_id,
    destinationId: row.destination_id,
    endpointId: row.endpoint_id,
    orgId: row.org_id,
    attemptedAtMs: row.attempted_at_ms,
    receiverUrl: row.receiver_url,
    httpStatus: row.http_status,
    responseBody: row.response_body,
    latencyMs: row.latency_ms,
    status: row.status,
    nextRetryAtMs: row.next_retry_at_ms,
  };
}
