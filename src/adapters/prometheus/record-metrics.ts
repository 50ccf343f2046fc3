import { Counter, Histogram, type Registry } from "prom-client";
import { LATENCY_BUCKETS_SECONDS } from "./registry.ts";

const RECORDED_TOPICS = ["events", "attempts"] as const;

/** Makes the metrics of the recorder; fits `RecordMetrics`. */
export function makeRecordMetrics(registry: Registry) {
  const registers = [registry];
  const labelNames = ["topic"] as const;
  const rows = new Counter({
    name: "relay_record_rows_total",
    help: "Rows inserted into the event store; of the topic attempts those of fan-outs, too",
    labelNames,
    registers,
  });
  const seconds = new Histogram({
    name: "relay_record_insert_seconds",
    help: "One insert",
    labelNames,
    buckets: LATENCY_BUCKETS_SECONDS,
    registers,
  });
  const batch = new Histogram({
    name: "relay_record_batch_rows",
    help: "Rows per insert",
    labelNames,
    buckets: [1, 10, 100, 1_000, 5_000, 10_000, 25_000, 50_000],
    registers,
  });
  const failures = new Counter({
    name: "relay_record_failures_total",
    help: "Inserts that failed and are repeated",
    labelNames,
    registers,
  });
  const skipped = new Counter({
    name: "relay_record_skipped_total",
    help: "Records of the log that could not be read",
    labelNames,
    registers,
  });
  // A series that begins at 1 is no increase to Prometheus: the first failure of a process would not be seen.
  for (const topic of RECORDED_TOPICS)
    for (const counter of [rows, failures, skipped]) counter.inc({ topic }, 0);
  return {
    recorded: (topic: string, count: number, tookSeconds: number): void => {
      rows.inc({ topic }, count);
      seconds.observe({ topic }, tookSeconds);
      batch.observe({ topic }, count);
    },
    failed: (topic: string): void => failures.inc({ topic }),
    skipped: (topic: string): void => skipped.inc({ topic }),
  };
}
