// A receiver in its own process, so that the test's load does not blur arrival times.
// The path says how it answers: /ok, /slow/<ms>, /flaky/<percent of 503>, /dead (500 always).
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setPriority } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { nowMs, type ReceivedRequest } from "./ledgers.ts";

const TICK_MS = 5;
const REPORT_MS = 200;

/** Everything that had arrived by then has been read. */
let readUpToMs = nowMs();
const began: ReceivedRequest[] = [];
const ended: {
  readonly index: number;
  readonly endedMs: number;
  readonly status: number | null;
}[] = [];
let count = 0;
let mode: "well" | "cutting" = "well";

try {
  setPriority(-10);
} catch {
  // Only root may raise it; the ledger's `notBeforeMs` bounds how late an arrival may be noted.
}
setInterval(() => {
  const atMs = nowMs();
  // Two turns of the event loop: a waiting connection is accepted in the first, its request is read in the second.
  setImmediate(() =>
    setImmediate(() => {
      readUpToMs = atMs;
    }),
  );
}, TICK_MS);
setInterval(report, REPORT_MS);

const server = createServer((request, response) => {
  const notBeforeMs = readUpToMs;
  const arrivedMs = nowMs();
  if (mode === "cutting") return void request.socket.destroy();
  const path = request.url ?? "/";
  const chunks: Buffer[] = [];
  let index: number | null = null;
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    index = count;
    count += 1;
    const header = (name: string) => String(request.headers[name] ?? "");
    began.push({
      path,
      eventId: header("webhook-id"),
      destinationId: header("x-relay-destination-id"),
      tryNumber: Number(header("x-relay-attempt")),
      trigger: header("x-relay-trigger"),
      timestamp: header("webhook-timestamp"),
      signature: header("webhook-signature"),
      body: Buffer.concat(chunks).toString(),
      notBeforeMs,
      arrivedMs,
      endedMs: null,
      status: null,
    });
    void answer(path).then((status) => response.writeHead(status).end("noted"));
  });
  response.on("close", () => {
    if (index === null) return;
    const status = response.writableFinished ? response.statusCode : null;
    ended.push({ index, endedMs: nowMs(), status });
  });
});

async function answer(path: string): Promise<number> {
  const [, kind = "", figure = "0"] = path.split("/");
  if (kind === "slow") await delay(Number(figure));
  if (kind === "flaky" && Math.random() * 100 < Number(figure)) return 503;
  return kind === "dead" ? 500 : 200;
}

function report(): void {
  if (began.length > 0 || ended.length > 0)
    process.send?.({ began: began.splice(0), ended: ended.splice(0) });
}

process.on("message", (message: { readonly mode?: typeof mode }) => {
  mode = message.mode ?? mode;
  if (mode === "cutting") server.closeAllConnections();
});
process.on("disconnect", () => process.exit());
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", 1_024, () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
