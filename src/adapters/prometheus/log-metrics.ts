import { Counter, Histogram, type Registry } from "prom-client";
import { LOG_ERROR_CODES, TOPICS, type Topic } from "../../domain/log.ts";
import { LATENCY_BUCKETS_SECONDS } from "./registry.ts";

/** Makes the metrics of the embedded log; fits `LmdbLogMetrics`. */
export function makeLogMetrics(registry: Registry) {
  const registers = [registry];
  const records = new Counter({
    name: "relay_log_records_total",
    help: "Records made durable",
    registers,
  });
  const seconds = new Histogram({
    name: "relay_log_commit_seconds",
    help: "From an append until its group commit is durable",
    buckets: LATENCY_BUCKETS_SECONDS,
    registers,
  });
  const bytes = new Counter({
    name: "relay_log_bytes_total",
    help: "Bytes made durable",
    registers,
  });
  const refused = new Counter({
    name: "relay_log_refused_total",
    help: "Appends refused, by code",
    labelNames: ["code"],
    registers,
  });
  // A series that begins at 1 is no increase to Prometheus.
  for (const code of LOG_ERROR_CODES) refused.inc({ code }, 0);
  const trimmed = new Counter({
    name: "relay_log_trimmed_regions_total",
    help: "Regions of the embedded log that were removed",
    registers,
  });
  return {
    appended: (count: number, tookSeconds: number): void => {
      records.inc(count);
      seconds.observe(tookSeconds);
    },
    committed: (sizeBytes: number): void => bytes.inc(sizeBytes),
    refused: (code: string): void => refused.inc({ code }),
    trimmed: (regions: number): void => trimmed.inc(regions),
    lost: makeLostCounter(registry),
  };
}

/** Makes the metrics of the log on Kafka; fits `KafkaLogMetrics`. */
export function makeKafkaLogMetrics(registry: Registry) {
  return { lost: makeLostCounter(registry) };
}

function makeLostCounter(registry: Registry): (topic: Topic, records: number) => void {
  const lost = new Counter({
    name: "relay_log_records_lost_total",
    help: "Records that the brokers' retention deleted before a consumer group had read them, or that are damaged on the log's disk",
    labelNames: ["topic"],
    registers: [registry],
  });
  for (const topic of TOPICS) lost.inc({ topic }, 0);
  return (topic, records) => lost.inc({ topic }, records);
}
