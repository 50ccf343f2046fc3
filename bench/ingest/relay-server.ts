// The ingest role alone: uWebSockets.js, inline verification and a log, durable before the answer.
//   [--log embedded|attached|kafka|none] [--dir DIR] [--socket PATH] [--brokers host:port,…] [--prefix topics.] [--port 0] [--verbose]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openKafkaLog } from "../../src/adapters/kafka/kafka-log.ts";
import { openLmdbLog } from "../../src/adapters/lmdb/open-lmdb-log.ts";
import { attachLog } from "../../src/adapters/lmdb/socket/attach-log.ts";
import { serveLogSocket } from "../../src/adapters/lmdb/socket/serve-log-socket.ts";
import { startIngestServer } from "../../src/adapters/uws/server.ts";
import { keepCollectorAside } from "../../src/app/garbage-collection.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import type { Log } from "../../src/domain/log.ts";
import type { EndpointConfig } from "../../src/domain/endpoint.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import { makeIngest } from "../../src/pipeline/ingest/ingest.ts";
import { INGEST_DEFAULTS } from "../../src/pipeline/ingest/ports.ts";
import { makeVerifier } from "../../src/pipeline/verify/verifier.ts";
import { reportUsageOnRequest } from "../lib/report-usage.ts";
import { benchSecret, benchToken } from "../lib/stripe-requests.ts";

keepCollectorAside();
const ENDPOINTS = 100;
const PARTITIONS = 48;
const quiet = () => {};
const logger = {
  debug: quiet,
  info: quiet,
  warn: console.warn,
  error: console.error,
  child: () => logger,
};
const clock = makeSystemClock();
const newId = makeIdGenerator();
const endpoints = new Map<string, { kind: "found"; value: EndpointConfig }>();
for (let index = 0; index < ENDPOINTS; index += 1) {
  const token = benchToken(index);
  const value: EndpointConfig = {
    id: newId("endpoint", Date.now()),
    orgId: "org_01HZZZZZZZZZZZZZZZZZZZZZZZ",
    provider: "stripe",
    method: "hmac_sha256",
    methodIsExplicit: false,
    secret: benchSecret(index),
    config: {},
    status: "active",
  };
  endpoints.set(token, { kind: "found", value });
}

const { values } = parseArgs({
  options: {
    log: { type: "string", default: "embedded" },
    brokers: { type: "string", default: "" },
    prefix: { type: "string", default: "bench." },
    port: { type: "string", default: "0" },
    /** Where the embedded log is served for another process, or attached to. */
    socket: { type: "string" },
    verbose: { type: "boolean", default: false },
    /** Directory of the embedded log; kept at the end. */
    dir: { type: "string" },
  },
});
const dir =
  values.dir ?? mkdtempSync(join(process.env["RELAY_BENCH_DIR"] ?? tmpdir(), "relay-bench-"));
const log = await openLog();

async function openLog(): Promise<Log | null> {
  switch (values.log) {
    case "embedded": {
      const owned = await openLmdbLog({
        dir,
        partitions: PARTITIONS,
        retentionMs: 0,
        clock,
        logger,
      });
      if (values.socket !== undefined) await serveLogSocket(owned, values.socket, logger);
      return owned;
    }
    case "attached":
      return attachLog({ socketPath: values.socket!, clock });
    case "kafka":
      return openKafkaLog({
        connection: { brokers: values.brokers.split(","), clientId: `bench-${process.pid}` },
        topicPrefix: values.prefix,
        partitions: PARTITIONS,
        replicationFactor: null,
        maxRecordBytes: 12 * 1024 * 1024,
        retentionMs: 86_400_000,
        logger,
      });
    default:
      return null;
  }
}

let appends = 0;
let appended = 0;
const verifier = makeVerifier({
  pool: null,
  jwks: null,
  metrics: { verified: quiet, unavailable: quiet, batchSent: quiet, queued: quiet },
  clock,
});
const ingest = makeIngest(
  {
    endpointByToken: (token) => endpoints.get(token) ?? { kind: "missing" },
    verify: verifier.verify,
    isInline: verifier.isInline,
    append: log === null ? () => Promise.resolve([]) : (records) => log.append(records),
    newEventId: (timeMs) => newId("event", timeMs),
    clock,
    defer: (callback) => setImmediate(callback),
    metrics: {
      answered: quiet,
      refused: quiet,
      appended(_seconds, records) {
        appends += 1;
        appended += records;
      },
    },
    logger,
  },
  {
    publicBaseUrl: "https://hooks.example.com",
    maxPayloadBytes: 10 * 1024 * 1024,
    rateLimitPerSecond: 0,
    trustedProxies: [],
    ...INGEST_DEFAULTS,
  },
);
const server = await startIngestServer({
  host: "127.0.0.1",
  port: Number(values.port),
  sharePort: values.port !== "0",
  handle: ingest.handle,
  metrics: { malformed: quiet, connections: quiet, connectionRefused: quiet, aborted: quiet },
  logger,
});

process.once("SIGTERM", () => {
  void (async () => {
    await server.stop(1_000);
    await log?.[Symbol.asyncDispose]();
    if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
    if (values.verbose) console.log(`records per append: ${(appended / appends).toFixed(1)}`);
    process.exit(0);
  })();
});
reportUsageOnRequest();
process.send?.({ port: server.port });
