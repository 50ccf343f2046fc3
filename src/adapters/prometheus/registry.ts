import { collectDefaultMetrics, Registry } from "prom-client";

export interface MetricsRegistry {
  readonly registry: Registry;
  /** Returns the text that `/metrics` answers with. */
  render(): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Makes a registry of its own (no global one), with the process metrics of prom-client. */
export function makeMetricsRegistry(): MetricsRegistry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return {
    registry,
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

/** Buckets in seconds for what takes from a millisecond to a minute. */
export const LATENCY_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60,
];
