import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { DELAY_TIERS } from "../../domain/delay-tier.ts";
import { ATTEMPT_STATUSES } from "../../domain/enums.ts";
import { TOPICS, type Topic } from "../../domain/log.ts";
import { LATENCY_BUCKETS_SECONDS } from "./registry.ts";

/** A try that runs into its time limit, 15 s by default, takes a little longer: an edge right above keeps it out of the next bucket. */
const ATTEMPT_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 15.5, 30, 60,
];
const DEFERRAL_REASONS = [
  "rate_limit",
  "lane_full",
  "circuit_open",
  "paused",
  "config_unavailable",
  "early",
] as const;

/** Makes the metrics of the delivery stage; fits `DeliverMetrics`. */
export function makeDeliverMetrics(registry: Registry) {
  const registers = [registry];
  const attempts = new Counter({
    name: "relay_delivery_attempts_total",
    help: "Tries, rate-limit deferrals, and deliveries that ended without a try (dead), by status",
    labelNames: ["status"],
    registers,
  });
  // A series that begins at 1 is no increase to Prometheus: the first outcomes of a process would not be seen.
  for (const status of ATTEMPT_STATUSES) attempts.inc({ status }, 0);
  const seconds = new Histogram({
    name: "relay_delivery_attempt_seconds",
    help: "One request to a receiver",
    labelNames: ["status"],
    buckets: ATTEMPT_BUCKETS_SECONDS,
    registers,
  });
  const deferrals = new Counter({
    name: "relay_delivery_deferrals_total",
    help: "Tasks put off without a request, by reason",
    labelNames: ["reason"],
    registers,
  });
  for (const reason of DEFERRAL_REASONS) deferrals.inc({ reason }, 0);
  const duplicates = new Counter({
    name: "relay_delivery_duplicates_dropped_total",
    help: "Redelivered tasks that had already ended",
    registers,
  });
  const unreadable = new Counter({
    name: "relay_delivery_unreadable_total",
    help: "Records of the log that delivery could not read and left out",
    labelNames: ["topic"],
    registers,
  });
  for (const topic of TOPICS) unreadable.inc({ topic }, 0);
  const circuits = new Gauge({
    name: "relay_delivery_open_circuits",
    help: "Destinations whose circuit is open",
    registers,
  });
  const inFlight = new Gauge({
    name: "relay_delivery_in_flight",
    help: "Requests to receivers under way",
    registers,
  });
  const queued = new Gauge({
    name: "relay_delivery_lane_tasks",
    help: "Deliveries that wait in lanes",
    registers,
  });
  const pending = new Gauge({
    name: "relay_delivery_pending_bytes",
    help: "Bytes of records taken in and not complete",
    registers,
  });
  const held = new Gauge({
    name: "relay_delivery_held_tasks",
    help: "Deliveries held for paused destinations",
    registers,
  });
  return {
    attempted: (status: string, tookSeconds: number | null): void => {
      attempts.inc({ status });
      if (tookSeconds !== null) seconds.observe({ status }, tookSeconds);
    },
    deferred: (reason: string): void => deferrals.inc({ reason }),
    droppedDuplicate: (): void => duplicates.inc(),
    unreadable: (topic: Topic): void => unreadable.inc({ topic }),
    openCircuits: (change: 1 | -1): void => circuits.inc(change),
    inFlight: (count: number): void => inFlight.set(count),
    queued: (deliveries: number, bytes: number): void => {
      queued.set(deliveries);
      pending.set(bytes);
    },
    held: (change: number): void => held.inc(change),
  };
}

/** Makes the metrics of the delay tiers; fits `DelayMetrics`. */
export function makeDelayMetrics(registry: Registry) {
  const registers = [registry];
  const forwarded = new Counter({
    name: "relay_delay_forwarded_total",
    help: "Tasks that a delay tier passed on",
    labelNames: ["topic"],
    registers,
  });
  for (const { topic } of DELAY_TIERS) forwarded.inc({ topic }, 0);
  const lateness = new Histogram({
    name: "relay_delay_lateness_seconds",
    help: "How late the head of a tier went on",
    buckets: LATENCY_BUCKETS_SECONDS,
    registers,
  });
  return {
    forwarded: (topic: string, count: number): void => forwarded.inc({ topic }, count),
    lateness: (tookSeconds: number): void => lateness.observe(tookSeconds),
  };
}
