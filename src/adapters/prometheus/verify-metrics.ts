import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { makeChildren } from "./children.ts";
import { LATENCY_BUCKETS_SECONDS } from "./registry.ts";

const FAILURES = ["queue_full", "too_late", "worker_lost", "stopped"] as const;

/** Makes the metrics of the verification stage; fits `VerifyMetrics`. */
export function makeVerifyMetrics(registry: Registry) {
  const registers = [registry];
  const verdicts = new Counter({
    name: "relay_ingest_verifications_total",
    help: "Verdicts by method and reason (the machine word of the outcome)",
    labelNames: ["method", "where", "reason"],
    registers,
  });
  const seconds = new Histogram({
    name: "relay_verify_seconds",
    help: "One verification, waiting included",
    labelNames: ["where"],
    buckets: [0.00001, 0.0001, ...LATENCY_BUCKETS_SECONDS],
    registers,
  });
  const unavailable = new Counter({
    name: "relay_verify_unavailable_total",
    help: "Requests that could not be verified in time, by cause",
    labelNames: ["cause"],
    registers,
  });
  const batches = new Histogram({
    name: "relay_verify_batch_requests",
    help: "Requests per batch sent to the pool",
    buckets: [1, 2, 4, 8, 16, 32, 64],
    registers,
  });
  const queued = new Gauge({
    name: "relay_verify_queued",
    help: "Requests and bytes that wait for a worker",
    labelNames: ["unit"],
    registers,
  });
  // A series that begins at 1 is no increase to Prometheus, and an empty queue is not the same as a missing one.
  for (const cause of FAILURES) unavailable.inc({ cause }, 0);
  for (const unit of ["requests", "bytes"]) queued.set({ unit }, 0);
  const secondsOf = makeChildren((where: string) => seconds.labels({ where }));
  const genuineOf = makeChildren((where: string) =>
    makeChildren((method: string) => verdicts.labels({ method, where, reason: "ok" })),
  );
  return {
    verified: (method: string, where: string, reason: string, tookSeconds: number): void => {
      if (reason === "ok") genuineOf(where)(method).inc();
      else verdicts.inc({ method, where, reason });
      secondsOf(where).observe(tookSeconds);
    },
    unavailable: (cause: string): void => unavailable.inc({ cause }),
    batchSent: (requests: number): void => batches.observe(requests),
    queued: (requests: number, sizeBytes: number): void => {
      queued.set({ unit: "requests" }, requests);
      queued.set({ unit: "bytes" }, sizeBytes);
    },
  };
}
