import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { makeDeliverMetrics } from "../../../src/adapters/prometheus/deliver-metrics.ts";
import { makeIngestMetrics } from "../../../src/adapters/prometheus/ingest-metrics.ts";
import { makeRecordMetrics } from "../../../src/adapters/prometheus/record-metrics.ts";

it("counters that alerts look at are there before the first failure: a series that begins at 1 is no increase", async () => {
  const registry = new Registry();
  makeRecordMetrics(registry);
  makeDeliverMetrics(registry);
  makeIngestMetrics(registry, () => ({ requests: 0, bytes: 0 }));
  const text = await registry.metrics();
  for (const series of [
    'relay_record_skipped_total{topic="events"}',
    'relay_record_skipped_total{topic="attempts"}',
    'relay_record_failures_total{topic="events"}',
    'relay_delivery_attempts_total{status="dead"}',
    'relay_ingest_requests_total{outcome="unavailable"}',
    'relay_ingest_unavailable_total{cause="log"}',
    'relay_ingest_unavailable_total{cause="internal"}',
    'relay_log_append_failures_total{code="log_unavailable"}',
  ])
    expect(text).toContain(`${series} 0\n`);
});
