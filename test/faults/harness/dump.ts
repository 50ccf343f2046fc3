import type { Client } from "../../../src/client/client.ts";
import { connectClickHouse } from "../../../src/adapters/clickhouse/connect.ts";
import type { AttemptStatus } from "../../../src/domain/enums.ts";
import type { ApiDump, DumpedAttempt, DumpedEvent } from "./ledgers.ts";

const PAGE = 100;
/** The list is read in windows of time, so that paging stays shallow. */
const WINDOW_MS = 5_000;
const READERS = 4;
const SELECT_ATTEMPTS = `
  SELECT event_id, destination_id, run, try_number, status, http_status
  FROM attempts FINAL
  WHERE status != '' AND event_received_at >= fromUnixTimestamp64Milli({from:Int64})
  ORDER BY event_id, attempted_at, try_number, deferral, id`;

/** Reads every event in a span of time from the API's list, with its summary. */
export async function dumpEvents(
  client: Client,
  fromMs: number,
  toMs: number,
): Promise<readonly DumpedEvent[]> {
  const events: DumpedEvent[] = [];
  for (let startMs = fromMs; startMs < toMs; startMs += WINDOW_MS) {
    const window = {
      from: new Date(startMs).toISOString(),
      to: new Date(Math.min(toMs, startMs + WINDOW_MS)).toISOString(),
    };
    for (let page = 1; ; page += 1) {
      const { data, pagination } = await client.events.search({
        ...window,
        page,
        limit: PAGE,
        delivery_summary: true,
      });
      for (const event of data)
        events.push({
          id: event.id,
          endpointId: event.endpoint_id,
          signatureValid: event.signature_valid,
          verificationError: event.verification_error,
          summary: event.delivery_summary ?? null,
        });
      if (!pagination.has_next) break;
    }
  }
  return events;
}

/** Reads every attempt since `fromMs` from the event store; those of an event are in the API's order. */
async function dumpAttempts(clickhouseUrl: string, fromMs: number): Promise<DumpedAttempt[]> {
  const client = connectClickHouse(clickhouseUrl);
  try {
    const found = await client.query({
      query: SELECT_ATTEMPTS,
      query_params: { from: Math.floor(fromMs) },
      format: "JSONEachRow",
    });
    const rows = await found.json<{
      event_id: string;
      destination_id: string;
      run: string;
      try_number: number;
      status: AttemptStatus;
      http_status: number;
    }>();
    return rows.map((row) => ({
      eventId: row.event_id,
      destinationId: row.destination_id,
      run: row.run,
      tryNumber: row.try_number,
      status: row.status,
      httpStatus: row.http_status,
    }));
  } finally {
    await client.close();
  }
}

/** Reads events one by one through the API: their bytes, and their attempts with the API's numbers. */
async function readDetails(
  client: Client,
  ids: readonly string[],
): Promise<{ readonly payloads: Map<string, string>; readonly attempts: Map<string, string> }> {
  const payloads = new Map<string, string>();
  const attempts = new Map<string, string>();
  const queue = [...ids];
  const read = async (): Promise<void> => {
    for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
      const event = await client.events.get(id);
      payloads.set(id, event.payload);
      const shown = event.attempts.map(
        (row) => `${row.destination_id} ${row.attempt_number} ${row.status}`,
      );
      attempts.set(id, shown.toSorted().join(", "));
    }
  };
  await Promise.all(Array.from({ length: READERS }, read));
  return { payloads, attempts };
}

/**
 * Describes the rows of one event, oldest first, as the API must show them: tries count from 1 at each destination, and a
 * deferral has the number of the try that followed from it.
 */
function describeAttempts(rows: readonly DumpedAttempt[]): string {
  const lines = rows.map((row, index) => {
    const { destinationId, status } = row;
    const tries = rows.filter(
      (other) => other.destinationId === destinationId && other.status !== "rate_limited",
    );
    const same = tries.filter(
      ({ run, tryNumber }) => run === row.run && tryNumber === row.tryNumber,
    );
    const made = same.find((other) => rows.indexOf(other) >= index) ?? same.at(-1);
    const number = made === undefined ? tries.length + 1 : tries.indexOf(made) + 1;
    return `${destinationId} ${number} ${status}`;
  });
  return lines.toSorted().join(", ");
}

/** Reads everything that the service says about what was sent; `sampleIds` are also read one by one. */
export async function dumpApi(options: {
  readonly client: Client;
  readonly clickhouseUrl: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly sampleIds: readonly string[];
}): Promise<ApiDump> {
  const { client, clickhouseUrl, fromMs, toMs, sampleIds } = options;
  const events = await dumpEvents(client, fromMs, toMs);
  const attempts = await dumpAttempts(clickhouseUrl, fromMs);
  const details = await readDetails(client, sampleIds);
  const byEvent = new Map<string, DumpedAttempt[]>();
  for (const attempt of attempts) {
    const own = byEvent.get(attempt.eventId);
    if (own === undefined) byEvent.set(attempt.eventId, [attempt]);
    else own.push(attempt);
  }
  for (const [id, shown] of details.attempts) {
    const stored = describeAttempts(byEvent.get(id) ?? []);
    if (stored !== shown) throw new Error(`${id}: the API shows ${shown}; the store has ${stored}`);
  }
  return { events, attempts, payloads: details.payloads };
}
