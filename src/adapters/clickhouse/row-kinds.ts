import type { Attempt } from "../../domain/attempt.ts";
import type { EventRecord } from "../../domain/event.ts";
import { isFanout, type EventRow, type OutcomeRow } from "../../domain/event-store.ts";
import { writeHeaderText } from "./header-text.ts";
import { fanoutId, FANOUT_STATUS } from "./schema.ts";
import type { TabSeparatedWriter } from "./tab-separated.ts";

const INSERT_EVENTS = `INSERT INTO events (org_id, received_at, id, endpoint_id, provider, signature_valid,
  verification_error, reason, method, path, query, content_type, source_ip, body_stored, headers, payload,
  tokens, payload_size) FORMAT TabSeparated`;
const INSERT_OUTCOMES = `INSERT INTO attempts (org_id, event_received_at, event_id, id, destination_id, endpoint_id,
  provider, signature_valid, run, cause, try_number, deferral, attempted_at, receiver_url, http_status, response_body,
  latency_ms, status, details, next_retry_at) FORMAT TabSeparated`;

const DAY_MS = 86_400_000;

/** Writes a row: at once, or a large one in turns of the event loop by the time that the returned promise resolves. */
export type WriteRow<T> = (out: TabSeparatedWriter, row: T) => Promise<void> | void;

/** What is inserted into a table, row by row. */
export interface RowKind<T> {
  readonly query: string;
  readonly write: WriteRow<T>;
  /** Returns the day that the row is stored in, as a number. */
  readonly dayOf: (row: T) => number;
}

export const EVENTS: RowKind<EventRow> = {
  query: INSERT_EVENTS,
  write: writeEvent,
  dayOf: ({ event }) => Math.floor(event.receivedAtMs / DAY_MS),
};
export const OUTCOMES: RowKind<OutcomeRow> = {
  query: INSERT_OUTCOMES,
  write: writeOutcome,
  dayOf: ({ eventReceivedAtMs }) => Math.floor(eventReceivedAtMs / DAY_MS),
};

function writeEvent(
  out: TabSeparatedWriter,
  { event, addTokens }: EventRow,
): Promise<void> | undefined {
  out.string(event.orgId);
  out.time(event.receivedAtMs);
  out.string(event.id);
  out.string(event.endpointId);
  out.string(event.provider);
  out.bool(event.signatureValid);
  out.nullableString(event.verificationError);
  out.string(event.reason);
  out.string(event.method);
  out.string(event.path);
  out.string(event.query);
  out.nullableString(event.contentType);
  out.string(event.sourceIp);
  out.bool(event.bodyStored);
  writeHeaderText(out, event.headers);
  out.binary(event.body);
  const adding = addTokens(out.startTokens());
  if (adding !== undefined) return adding.then(() => endEvent(out, event));
  endEvent(out, event);
  return undefined;
}

/** Writes what stands behind the tokens, and them. */
function endEvent(out: TabSeparatedWriter, event: EventRecord): void {
  out.endTokens();
  out.number(event.payloadSizeBytes);
  out.endRow();
}

type Columns = Omit<Attempt, "trigger" | "status"> & Record<"trigger" | "status", string>;

/** What a fan-out puts into the columns of a try. */
const NO_TRY = {
  destinationId: "",
  trigger: "",
  tryNumber: 0,
  deferral: 0,
  receiverUrl: "",
  httpStatus: 0,
  responseBody: "",
  latencyMs: 0,
  status: FANOUT_STATUS,
  nextRetryAtMs: null,
} as const satisfies Partial<Columns>;

function writeOutcome(out: TabSeparatedWriter, row: OutcomeRow): void {
  if (!isFanout(row)) return writeColumns(out, row, null);
  const { eventId, orgId, endpointId, provider, signatureValid, eventReceivedAtMs, run } = row;
  // Named one by one: Node 20 takes 30 µs for what is added to a spread object ("The collector" in bench/what-was-tried.md).
  const columns: Columns = {
    id: fanoutId(run),
    eventId,
    orgId,
    endpointId,
    provider,
    signatureValid,
    eventReceivedAtMs,
    run,
    attemptedAtMs: row.atMs,
    ...NO_TRY,
  };
  writeColumns(out, columns, row.destinationIds);
}

/** @param details null where they follow from the other columns */
function writeColumns(
  out: TabSeparatedWriter,
  row: Columns,
  details: readonly string[] | null,
): void {
  out.string(row.orgId);
  out.time(row.eventReceivedAtMs);
  out.string(row.eventId);
  out.string(row.id);
  out.string(row.destinationId);
  out.string(row.endpointId);
  out.string(row.provider);
  out.bool(row.signatureValid);
  out.string(row.run);
  out.string(row.trigger);
  out.number(row.tryNumber);
  out.number(row.deferral);
  out.time(row.attemptedAtMs);
  out.string(row.receiverUrl);
  out.number(row.httpStatus);
  out.string(row.responseBody);
  out.number(Math.min(0xffff_ffff, Math.max(0, Math.round(row.latencyMs))));
  out.string(row.status);
  if (details === null) out.byDefault();
  else out.strings(details);
  out.nullableTime(row.nextRetryAtMs);
  out.endRow();
}
