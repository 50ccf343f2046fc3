import { timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../../domain/thrown.ts";
import type { StatementResult, StatementRunner } from "./run-statement.ts";
import { parseStatement, StatementError } from "./statement.ts";

/** Inserts of one batch are far smaller; this only keeps a stray client from filling the memory. */
const MAX_BODY_BYTES = 512 * 1024 * 1024;
/** As much as ClickHouse takes: parameters stand in the URL, such as the names of hundreds of parts. */
const MAX_HEADER_BYTES = 1024 * 1024;
/** The engine forgets a cancellation that comes while it plans the query, so it is repeated until the query has ended. */
const CANCEL_AGAIN_MS = 200;

/**
 * Serves ClickHouse's HTTP interface over chDB, as far as `@clickhouse/client` uses it: statements by POST, settings and
 * `param_…` in the URL, rows after an INSERT, `/ping`, errors with `X-ClickHouse-Exception-Code`. Results are sent
 * whole (never an exception in the middle of rows), uncompressed. A client that hangs up ends its read.
 * Follows https://clickhouse.com/docs/interfaces/http
 */
export function makeHttpListener(
  runner: StatementRunner,
  credentials: { readonly user: string; readonly password: string },
): Server {
  const expected = Buffer.from(
    `Basic ${Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64")}`,
  );
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    answer(runner, expected, request, response).catch((error: unknown) => {
      sendError(response, error);
    });
  });
  server.keepAliveTimeout = 60_000;
  server.requestTimeout = 0;
  return server;
}

async function answer(
  runner: StatementRunner,
  expected: Buffer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? "/", "http://localhost");
  if (url.pathname === "/ping") {
    response.end("Ok.\n");
    return;
  }
  const given = Buffer.from(request.headers.authorization ?? "");
  if (given.length !== expected.length || !timingSafeEqual(given, expected))
    throw new StatementError(516, "AUTHENTICATION_FAILED", "Authentication failed");
  const statement = parseStatement(url.searchParams, await readBody(request));
  const run = { ended: false };
  const cancel = async (): Promise<void> => {
    while (!run.ended) {
      await runner.cancel(statement.queryId);
      await sleep(CANCEL_AGAIN_MS);
    }
  };
  response.once("close", () => {
    if (statement.reads) cancel().catch(() => undefined);
  });
  const result = await runner.run(statement).finally(() => {
    run.ended = true;
  });
  if (!response.destroyed) sendResult(response, statement.queryId, result);
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_BODY_BYTES)
      throw new StatementError(241, "MEMORY_LIMIT_EXCEEDED", "The request body is too large");
    chunks.push(chunk);
  }
  return chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks);
}

function sendResult(response: ServerResponse, queryId: string, result: StatementResult): void {
  response.writeHead(200, {
    "content-type": "text/plain; charset=UTF-8",
    "content-length": result.bytes.length,
    "x-clickhouse-query-id": queryId,
    "x-clickhouse-timezone": "UTC",
    "x-clickhouse-summary": JSON.stringify({
      read_rows: String(result.rowsRead),
      read_bytes: String(result.bytesRead),
      written_rows: String(result.rowsWritten),
      written_bytes: String(result.bytesWritten),
      total_rows_to_read: "0",
      result_rows: "0",
      result_bytes: String(result.bytes.length),
      elapsed_ns: "0",
    }),
  });
  response.end(result.bytes);
}

function sendError(response: ServerResponse, error: unknown): void {
  if (response.destroyed || response.headersSent) {
    response.destroy();
    return;
  }
  const text = messageOf(error);
  const code = /Code: (\d+)/.exec(text)?.[1] ?? "1002";
  const body = text.includes("DB::Exception")
    ? text
    : `Code: ${code}. DB::Exception: ${text}. (UNKNOWN_EXCEPTION)`;
  response.writeHead(code === "516" ? 403 : 500, {
    "content-type": "text/plain; charset=UTF-8",
    "x-clickhouse-exception-code": code,
  });
  response.end(`${body}\n`);
}
