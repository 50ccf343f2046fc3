import { Readable } from "node:stream";
import { parseError, type ClickHouseClient } from "@clickhouse/client";
import type { Attempt } from "../../domain/attempt.ts";
import type { EventRecord } from "../../domain/event.ts";
import {
  EventStoreError,
  isFanout,
  type EventRow,
  type EventStoreWriter,
  type OutcomeRow,
} from "../../domain/event-store.ts";
import { withinOrCalledOff } from "../../domain/follow-signal.ts";
import { nextTurn } from "../../domain/next-turn.ts";
import { REQUEST_TIMEOUT_MS } from "./connect.ts";
import { writeHeaderText } from "./header-text.ts";
import { COARSE_TEXT_FILTER, fanoutId, FANOUT_STATUS } from "./schema.ts";
import { PiecePool } from "./piece-pool.ts";
import { TabSeparatedWriter } from "./tab-separated.ts";
import { toInsertError } from "./store-error.ts";

const INSERT_EVENTS = `INSERT INTO events (org_id, received_at, id, endpoint_id, provider, signature_valid,
  verification_error, reason, method, path, query, content_type, source_ip, body_stored, headers, payload,
  tokens, payload_size) FORMAT TabSeparated`;
const INSERT_OUTCOMES = `INSERT INTO attempts (org_id, event_received_at, event_id, id, destination_id, endpoint_id,
  provider, signature_valid, run, cause, try_number, deferral, attempted_at, receiver_url, http_status, response_body,
  latency_ms, status, details, next_retry_at) FORMAT TabSeparated`;

const BYTES_PER_TURN = 128 * 1024;
/**
 * An insert ends when it reaches this size, and the rest of its batch goes into further ones. Tokens repeat the path of each leaf: for
 * payloads of 5 KB they can reach 2 MB each, so that a whole batch would fill the memory here, or exceed what the store takes, each
 * time it is sent.
 */
const MOST_BYTES = 96 * 1024 * 1024;
/**
 * An insert also ends before rows of more days than this, since each day is a part of the table: servers refuse more by default
 * (`max_partitions_per_insert_block`). Outcomes lie on the days of their events, and a replay may be of years.
 */
const MOST_DAYS = 100;
const DAY_MS = 86_400_000;

/**
 * Batches are stored before the insert returns, in one block, on every shard: no server-side buffering. The coarse text filters,
 * a third of the engine's time, are left to merges: an unmerged part has only a few fine ones to be read.
 */
const INSERT_SETTINGS = {
  async_insert: 0,
  insert_deduplicate: 1,
  distributed_foreground_insert: 1,
  input_format_parallel_parsing: 0,
  // An attempt's details follow from its other columns, but a fan-out's do not.
  input_format_null_as_default: 1,
  input_format_defaults_for_omitted_fields: 1,
  max_insert_block_size: "1000000",
  exclude_materialize_skip_indexes_on_insert: COARSE_TEXT_FILTER.name,
} as const;

/**
 * @param mostBytes an insert that reaches this size ends there, and the rest goes into another one
 * @throws {EventStoreError} from every call
 */
export function makeEventStoreWriter(
  client: ClickHouseClient,
  mostBytes = MOST_BYTES,
): EventStoreWriter {
  const pool = new PiecePool();
  const send = async (
    query: string,
    data: readonly Buffer[],
    token: string,
    signal: AbortSignal | undefined,
  ): Promise<void> => {
    try {
      signal?.throwIfAborted();
      const answer = await client.exec({
        query,
        values: Readable.from(data, { objectMode: false }),
        ...(signal === undefined ? {} : { abort_signal: signal }),
        clickhouse_settings: { ...INSERT_SETTINGS, insert_deduplication_token: token },
      });
      await drain(answer.stream, signal);
    } catch (error) {
      throw toInsertError(error);
    }
  };
  const insert = async <T>(
    { query, write, dayOf }: RowKind<T>,
    batch: readonly T[],
    token: string,
    signal?: AbortSignal,
  ): Promise<void> => {
    const rows = inFewInserts(batch, dayOf);
    let from = 0;
    while (from < rows.length) {
      const out = new TabSeparatedWriter(pool);
      const to = endOfDays(rows, from, dayOf);
      const end = await encodeRows(out, rows, { from, to }, write, mostBytes);
      await send(query, out.pieces(), from === 0 ? token : `${token}+${from}`, signal);
      // Not after a failure: the request may still be reading from them.
      out.giveBack();
      from = end;
    }
  };
  return {
    insertEvents: (rows, token, signal) => insert(EVENTS, rows, token, signal),
    insertOutcomes: (rows, token, signal) => insert(OUTCOMES, rows, token, signal),
  };
}

/**
 * Reads an answer to its end: once its headers are there, the driver neither limits its time nor ends it with the signal. It is empty,
 * unless the server had already said that all is well when something went wrong.
 */
function drain(answer: Readable, signal: AbortSignal | undefined): Promise<void> {
  const read = async (ended: AbortSignal): Promise<void> => {
    ended.addEventListener("abort", () => answer.destroy());
    let text = "";
    for await (const piece of answer) text += String(piece);
    ended.throwIfAborted();
    if (text !== "") throw parseError(text);
  };
  return withinOrCalledOff(signal, REQUEST_TIMEOUT_MS, read, () => {
    const seconds = REQUEST_TIMEOUT_MS / 1_000;
    throw new EventStoreError(
      "store_unavailable",
      `ClickHouse has begun to answer an insert, and not ended within ${seconds} s`,
    );
  });
}

interface RowKind<T> {
  readonly query: string;
  readonly write: WriteRow<T>;
  /** Returns the day that the row is stored in, as a number. */
  readonly dayOf: (row: T) => number;
}

const EVENTS: RowKind<EventRow> = {
  query: INSERT_EVENTS,
  write: writeEvent,
  dayOf: ({ event }) => Math.floor(event.receivedAtMs / DAY_MS),
};
const OUTCOMES: RowKind<OutcomeRow> = {
  query: INSERT_OUTCOMES,
  write: writeOutcome,
  dayOf: ({ eventReceivedAtMs }) => Math.floor(eventReceivedAtMs / DAY_MS),
};

/** Returns rows of many days day by day, always in the same order for the same batch; else as they are. */
function inFewInserts<T>(rows: readonly T[], dayOf: (row: T) => number): readonly T[] {
  if (endOfDays(rows, 0, dayOf) === rows.length) return rows;
  return rows.toSorted((one, other) => dayOf(one) - dayOf(other));
}

/** Returns the index after the last row from `from` on with which the rows are of few enough days for one insert. */
function endOfDays<T>(rows: readonly T[], from: number, dayOf: (row: T) => number): number {
  const days = new Set<number>();
  for (let index = from; index < rows.length; index += 1) {
    days.add(dayOf(rows[index]!));
    if (days.size > MOST_DAYS) return index;
  }
  return rows.length;
}

/** Writes a row; a large one in turns of the event loop, until what is returned resolves. */
type WriteRow<T> = (out: TabSeparatedWriter, row: T) => Promise<void> | void;

/**
 * Writes rows from `from` on, before `to`, and returns the index after the last one, always the same for the same batch.
 * Lets other work run in between: a full batch would block the event loop for tens of milliseconds.
 */
async function encodeRows<T>(
  out: TabSeparatedWriter,
  rows: readonly T[],
  { from, to }: { readonly from: number; readonly to: number },
  write: WriteRow<T>,
  mostBytes: number,
): Promise<number> {
  let restAtBytes = BYTES_PER_TURN;
  let end = from;
  while (end < to && out.sizeBytes < mostBytes) {
    const writing = write(out, rows[end]!);
    if (writing instanceof Promise) await writing;
    end += 1;
    if (out.sizeBytes < restAtBytes) continue;
    restAtBytes = out.sizeBytes + BYTES_PER_TURN;
    await nextTurn();
  }
  return end;
}

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
