import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { LOG_ERROR_CODES } from "../../domain/log.ts";
import { makeChildren } from "./children.ts";
import { LATENCY_BUCKETS_SECONDS } from "./registry.ts";

const OUTCOMES = [
  "accepted",
  "verification_failed",
  "source_not_allowed",
  "endpoint_disabled",
  "endpoint_paused",
  "payload_too_large",
  "rate_limited",
  "not_found",
  "method_not_allowed",
  "unavailable",
] as const;
const UNAVAILABLE_CAUSES = [
  "overloaded",
  "configuration",
  "verification",
  "log",
  "internal",
] as const;
/** Codes of failed appends; `log_failed` for anything but a `LogError`. */
const FAILURE_CODES = [...LOG_ERROR_CODES, "log_failed"] as const;

/** Makes the metrics of the ingest stage and its HTTP server; fits `IngestMetrics` and `IngestServerMetrics`. */
export function makeIngestMetrics(
  registry: Registry,
  inFlight: () => { readonly requests: number; readonly bytes: number },
) {
  const registers = [registry];
  const requests = new Counter({
    name: "relay_ingest_requests_total",
    help: "Webhooks answered, by outcome",
    labelNames: ["outcome"],
    registers,
  });
  const seconds = new Histogram({
    name: "relay_ingest_request_seconds",
    help: "From the head of a request to its answer",
    buckets: LATENCY_BUCKETS_SECONDS,
    registers,
  });
  const unavailable = new Counter({
    name: "relay_ingest_unavailable_total",
    help: "Webhooks answered 503, by cause",
    labelNames: ["cause"],
    registers,
  });
  const append = new Histogram({
    name: "relay_log_append_seconds",
    help: "From handing a batch of events to the log until it is durable",
    buckets: LATENCY_BUCKETS_SECONDS,
    registers,
  });
  const batch = new Histogram({
    name: "relay_ingest_append_batch_records",
    help: "Events per append",
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    registers,
  });
  const failures = new Counter({
    name: "relay_log_append_failures_total",
    help: "Appends of events that failed, by code",
    labelNames: ["code"],
    registers,
  });
  const malformed = new Counter({
    name: "relay_ingest_malformed_total",
    help: "HTTP requests that were malformed or did not arrive in time, answered 400 or 408, and bodies in too many small chunks, cut off: not recorded",
    registers,
  });
  const connections = new Gauge({
    name: "relay_ingest_connections",
    help: "Open connections",
    registers,
  });
  const refused = new Counter({
    name: "relay_ingest_connections_refused_total",
    help: "Connections closed at once since too many were open",
    registers,
  });
  const aborted = new Counter({
    name: "relay_ingest_aborted_total",
    help: "Clients that went away before their answer",
    registers,
  });
  void new Gauge({
    name: "relay_ingest_in_flight",
    help: "Requests and bytes between head and answer",
    labelNames: ["unit"],
    registers,
    collect() {
      const now = inFlight();
      this.set({ unit: "requests" }, now.requests);
      this.set({ unit: "bytes" }, now.bytes);
    },
  });
  // A series that begins at 1 is no increase to Prometheus: the first webhooks that a process refuses would not be seen.
  for (const outcome of OUTCOMES) requests.inc({ outcome }, 0);
  for (const cause of UNAVAILABLE_CAUSES) unavailable.inc({ cause }, 0);
  for (const code of FAILURE_CODES) failures.inc({ code }, 0);
  const byOutcome = makeChildren((outcome: string) => requests.labels({ outcome }));
  return {
    answered: (outcome: string, tookSeconds: number): void => {
      byOutcome(outcome).inc();
      seconds.observe(tookSeconds);
    },
    refused: (cause: string): void => unavailable.inc({ cause }),
    appended: (tookSeconds: number, records: number, failure: string | null): void => {
      if (failure !== null) return failures.inc({ code: failure });
      append.observe(tookSeconds);
      batch.observe(records);
    },
    malformed: (): void => malformed.inc(),
    connections: (open: number): void => connections.set(open),
    connectionRefused: (): void => refused.inc(),
    aborted: (): void => aborted.inc(),
  };
}
