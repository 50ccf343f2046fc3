import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { LATENCY_BUCKETS_SECONDS } from "./registry.ts";

/** What gauges read when they are scraped. */
export interface AppMetricSources {
  readonly parts: () => readonly {
    readonly name: string;
    readonly up: boolean;
    readonly restarts: number;
  }[];
  readonly lags: () => Promise<
    readonly { readonly group: string; readonly topic: string; readonly records: number }[]
  >;
  readonly isConfigPushed: () => boolean;
}

export function registerAppMetrics(registry: Registry, sources: AppMetricSources): void {
  const registers = [registry];
  void new Gauge({
    name: "relay_part_up",
    help: "1 when a part of the process works, 0 while the supervisor restarts it",
    labelNames: ["part"],
    registers,
    collect() {
      for (const part of sources.parts()) this.set({ part: part.name }, part.up ? 1 : 0);
    },
  });
  void new Counter({
    name: "relay_part_restarts_total",
    help: "How often the supervisor restarted a part",
    labelNames: ["part"],
    registers,
    collect() {
      this.reset();
      for (const part of sources.parts()) this.inc({ part: part.name }, part.restarts);
    },
  });
  void new Gauge({
    name: "relay_config_feed_up",
    help: "1 while PostgreSQL pushes changes of the configuration to the process, 0 while it is away",
    registers,
    collect() {
      this.set(sources.isConfigPushed() ? 1 : 0);
    },
  });
  void new Gauge({
    name: "relay_log_lag_records",
    help: "Records between a group's committed offsets and the end of the log, owned partitions only",
    labelNames: ["group", "topic"],
    registers,
    async collect() {
      const lags = await sources.lags();
      // What can no longer be read must not keep its last value: that would look like a stuck lag, or hide one.
      this.reset();
      for (const lag of lags) this.set({ group: lag.group, topic: lag.topic }, lag.records);
    },
  });
}

/** Errors of the server, by which the alert goes. */
const SERVER_ERRORS = ["500", "503"] as const;

/** Makes the metrics of the management API; fits `ApiMetrics`. */
export function makeApiMetrics(
  registry: Registry,
  operations: readonly string[],
): {
  readonly answered: (operation: string, status: number, seconds: number) => void;
} {
  const requests = new Counter({
    name: "relay_api_requests_total",
    help: "Management API requests",
    labelNames: ["operation", "status"],
    registers: [registry],
  });
  // A series that begins at 1 is no increase to Prometheus: a 500 that an operation answered once would not be seen.
  for (const operation of operations)
    for (const status of SERVER_ERRORS) requests.inc({ operation, status }, 0);
  const latency = new Histogram({
    name: "relay_api_request_seconds",
    help: "One management API request",
    labelNames: ["operation"],
    buckets: LATENCY_BUCKETS_SECONDS,
    registers: [registry],
  });
  return {
    answered: (operation, status, seconds) => {
      requests.inc({ operation, status: String(status) });
      latency.observe({ operation }, seconds);
    },
  };
}
