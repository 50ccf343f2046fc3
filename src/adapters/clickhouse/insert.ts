import { Readable } from "node:stream";
import { ClickHouseError, parseError, type ClickHouseClient } from "@clickhouse/client";
import { EventStoreError, type EventStoreWriter } from "../../domain/event-store.ts";
import { withinOrCalledOff } from "../../domain/follow-signal.ts";
import { nextTurn } from "../../domain/next-turn.ts";
import { codeOf } from "../../domain/thrown.ts";
import { REQUEST_TIMEOUT_MS } from "./connect.ts";
import { PiecePool } from "./piece-pool.ts";
import { EVENTS, OUTCOMES, type RowKind, type WriteRow } from "./row-kinds.ts";
import { COARSE_TEXT_FILTER } from "./schema.ts";
import { toInsertError } from "./store-error.ts";
import { TabSeparatedWriter } from "./tab-separated.ts";

const BYTES_PER_TURN = 128 * 1024;
/**
 * An insert ends when it reaches this size, and the rest of its batch goes into further ones. Tokens repeat the path of each leaf: for
 * payloads of 5 KB they can reach 2 MB each, so that a whole batch would fill the memory here, or exceed what the store takes, each
 * time it is sent.
 */
const MAX_BYTES = 96 * 1024 * 1024;
/**
 * An insert for which the store has too little memory, or that it stops for another limit, is half as large the next time, but no less
 * than this; each batch that is stored lets the next inserts be a little larger again. The same goes for an insert during which the
 * store ends a second time: the system may have ended it for its memory. The first time it is repeated as it was, since it may have
 * been stored.
 */
const MIN_BYTES = 1024 * 1024;
const GROWTH = 1.1;
/** Batches of which an insert was cut off, and that others now record, are forgotten beyond this number. */
const MAX_CUT_OFF = 1_000;
/**
 * An insert also ends before rows of more days than this, since each day is a part of the table: servers refuse more by default
 * (`max_partitions_per_insert_block`). Outcomes lie on the days of their events, and a replay may be of years.
 */
const MAX_DAYS = 100;

/** Batches are stored before the insert returns, in one block, on every shard: no server-side buffering. */
const INSERT_SETTINGS = {
  async_insert: 0,
  insert_deduplicate: 1,
  distributed_foreground_insert: 1,
  input_format_parallel_parsing: 0,
  // An attempt's details follow from its other columns, but a fan-out's do not.
  input_format_null_as_default: 1,
  input_format_defaults_for_omitted_fields: 1,
  max_insert_block_size: "1000000",
} as const;
/**
 * The coarse text filters, a third of the engine's time, are left to merges: an unmerged part has only a few fine ones to be read.
 * Servers before 25.10 do not know the setting, and make all filters at once.
 */
const FILTERS_LEFT_OUT = "exclude_materialize_skip_indexes_on_insert";
const UNKNOWN_SETTING = "115";

/**
 * @param maxBytes an insert that reaches this size ends there, and the rest goes into another one
 * @throws {EventStoreError} from every call
 */
export function makeEventStoreWriter(
  client: ClickHouseClient,
  maxBytes = MAX_BYTES,
): EventStoreWriter {
  const pool = new PiecePool();
  const minBytes = Math.min(MIN_BYTES, maxBytes);
  let limitBytes = maxBytes;
  let leavesFiltersOut = true;
  /** Tokens of inserts during which the connection was lost. */
  const cutOff = new Set<string>();
  const isCutOffAgain = (error: unknown, token: string): boolean => {
    if (!isConnectionLost(error)) return false;
    const again = cutOff.has(token);
    if (cutOff.size === MAX_CUT_OFF) cutOff.clear();
    cutOff.add(token);
    return again;
  };
  const send = async (
    query: string,
    out: TabSeparatedWriter,
    token: string,
    signal: AbortSignal | undefined,
  ): Promise<void> => {
    const leftOut = leavesFiltersOut ? { [FILTERS_LEFT_OUT]: COARSE_TEXT_FILTER.name } : {};
    try {
      signal?.throwIfAborted();
      const answer = await client.exec({
        query,
        values: Readable.from(out.pieces(), { objectMode: false }),
        ...(signal === undefined ? {} : { abort_signal: signal }),
        clickhouse_settings: {
          ...INSERT_SETTINGS,
          ...leftOut,
          insert_deduplication_token: token,
        },
      });
      await drain(answer.stream, signal);
      cutOff.delete(token);
    } catch (error) {
      if (FILTERS_LEFT_OUT in leftOut && isUnknownSetting(error, FILTERS_LEFT_OUT)) {
        leavesFiltersOut = false;
        return send(query, out, token, signal);
      }
      const failure = toInsertError(error);
      if (failure.code === "query_limit" || isCutOffAgain(error, token))
        limitBytes = Math.max(minBytes, Math.min(limitBytes, out.sizeBytes) / 2);
      throw failure;
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
    let to = 0;
    while (from < rows.length) {
      if (from === to) to = endOfDays(rows, from, dayOf);
      const out = new TabSeparatedWriter(pool);
      const end = await encodeRows(out, rows, { from, to }, write, limitBytes);
      // One that is repeated with other rows must not be taken for the same.
      const isWhole = end - from === rows.length;
      await send(query, out, isWhole ? token : `${token}+${from}-${end}`, signal);
      // Not after a failure: the request may still be reading from them.
      out.giveBack();
      from = end;
    }
    limitBytes = Math.min(maxBytes, limitBytes * GROWTH);
  };
  return {
    insertEvents: (rows, token, signal) => insert(EVENTS, rows, token, signal),
    insertOutcomes: (rows, token, signal) => insert(OUTCOMES, rows, token, signal),
  };
}

function isUnknownSetting(error: unknown, name: string): boolean {
  return (
    error instanceof ClickHouseError &&
    error.code === UNKNOWN_SETTING &&
    error.message.includes(name)
  );
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

/** Returns whether the store was there when the request began, and went away. */
function isConnectionLost(error: unknown): boolean {
  const code = codeOf(error);
  return code === "ECONNRESET" || code === "EPIPE";
}

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
    if (days.size > MAX_DAYS) return index;
  }
  return rows.length;
}

/**
 * Writes rows from `from` on, before `to`, and returns the index after the last one, the same for the same batch and bound.
 * Lets other work run in between: a full batch would block the event loop for tens of milliseconds.
 */
async function encodeRows<T>(
  out: TabSeparatedWriter,
  rows: readonly T[],
  { from, to }: { readonly from: number; readonly to: number },
  write: WriteRow<T>,
  maxBytes: number,
): Promise<number> {
  let restAtBytes = BYTES_PER_TURN;
  let end = from;
  while (end < to && out.sizeBytes < maxBytes) {
    const writing = write(out, rows[end]!);
    if (writing instanceof Promise) await writing;
    end += 1;
    if (out.sizeBytes < restAtBytes) continue;
    restAtBytes = out.sizeBytes + BYTES_PER_TURN;
    await nextTurn();
  }
  return end;
}
