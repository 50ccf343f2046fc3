import type { AttemptStatus, Provider } from "../../domain/enums.ts";
import type { EventListItem } from "../../domain/event-query.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { EventKey, StoredAttempt } from "../../domain/event-store.ts";
import { fromHeaderText } from "./header-text.ts";

/** Rows as ClickHouse writes them in JSONEachRow. */
export interface ItemJson extends EventColumns {
  readonly id: string;
  readonly org_id: string;
  readonly received_at_ms: number;
}

interface EventColumns {
  readonly endpoint_id: string;
  readonly provider: Provider;
  readonly signature_valid: boolean;
  readonly verification_error: string | null;
  readonly payload_size: number;
}

/** Without the columns that its key tells. */
export interface EventJson extends EventColumns {
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
  readonly destination_id: string;
  readonly endpoint_id: string;
  readonly attempted_at_ms: number;
  readonly run: string;
  readonly try_number: number;
  readonly deferral: number;
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

export function toEvent(row: EventJson, orgId: string, key: EventKey): EventRecord {
  return {
    ...toItem({ ...row, id: key.id, org_id: orgId, received_at_ms: key.receivedAtMs }),
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

/** Oldest first; the same order as `position` in the summaries' statement. */
export function inOrderOfTries(a: AttemptJson, b: AttemptJson): number {
  return (
    a.attempted_at_ms - b.attempted_at_ms ||
    a.try_number - b.try_number ||
    a.deferral - b.deferral ||
    (a.id < b.id ? -1 : 1)
  );
}

export function toAttempt(row: AttemptJson, orgId: string, key: EventKey): StoredAttempt {
  return {
    id: row.id,
    eventId: key.id,
    destinationId: row.destination_id,
    endpointId: row.endpoint_id,
    orgId,
    run: row.run,
    tryNumber: row.try_number,
    attemptedAtMs: row.attempted_at_ms,
    receiverUrl: row.receiver_url,
    httpStatus: row.http_status,
    responseBody: row.response_body,
    latencyMs: row.latency_ms,
    status: row.status,
    nextRetryAtMs: row.next_retry_at_ms,
  };
}
