import { Registry } from "prom-client";
import { expect, it } from "vitest";
import {
  makeApiMetrics,
  registerAppMetrics,
} from "../../../src/adapters/prometheus/app-metrics.ts";
import { makeDeliverMetrics } from "../../../src/adapters/prometheus/deliver-metrics.ts";
import { makeIngestMetrics } from "../../../src/adapters/prometheus/ingest-metrics.ts";
import { makeKafkaLogMetrics } from "../../../src/adapters/prometheus/log-metrics.ts";
import { makeRecordMetrics } from "../../../src/adapters/prometheus/record-metrics.ts";
import { makeVerifyMetrics } from "../../../src/adapters/prometheus/verify-metrics.ts";
import type { DeferralReason } from "../../../src/pipeline/deliver/ports.ts";
import type { OutcomeKind, UnavailableCause } from "../../../src/pipeline/ingest/outcome.ts";
import type { VerifyFailure } from "../../../src/pipeline/verify/verify-metrics.ts";

it("counters that alerts look at are there before the first failure: a series that begins at 1 is no increase", async () => {
  const registry = new Registry();
  makeRecordMetrics(registry);
  makeDeliverMetrics(registry);
  makeIngestMetrics(registry, () => ({ requests: 0, bytes: 0 }));
  makeKafkaLogMetrics(registry);
  makeApiMetrics(registry, ["listEvents"]);
  const text = await registry.metrics();
  for (const series of [
    'relay_record_skipped_total{topic="events"}',
    'relay_record_skipped_total{topic="attempts"}',
    'relay_record_failures_total{topic="events"}',
    'relay_delivery_attempts_total{status="dead"}',
    'relay_delivery_unreadable_total{topic="held"}',
    'relay_ingest_requests_total{outcome="unavailable"}',
    'relay_ingest_unavailable_total{cause="log"}',
    'relay_ingest_unavailable_total{cause="internal"}',
    'relay_log_append_failures_total{code="log_unavailable"}',
    'relay_log_records_lost_total{topic="delay-4h"}',
    // Regression: the first errors of each operation were not seen.
    'relay_api_requests_total{operation="listEvents",status="500"}',
    'relay_api_requests_total{operation="listEvents",status="503"}',
  ])
    expect(text).toContain(`${series} 0\n`);
});

const OUTCOMES: Record<OutcomeKind, true> = {
  accepted: true,
  verification_failed: true,
  source_not_allowed: true,
  endpoint_disabled: true,
  endpoint_paused: true,
  payload_too_large: true,
  rate_limited: true,
  not_found: true,
  method_not_allowed: true,
  unavailable: true,
};
const CAUSES: Record<UnavailableCause, true> = {
  overloaded: true,
  configuration: true,
  verification: true,
  log: true,
  internal: true,
};
const DEFERRALS: Record<DeferralReason, true> = {
  rate_limit: true,
  lane_full: true,
  circuit_open: true,
  paused: true,
  config_unavailable: true,
  early: true,
};
const VERIFY_FAILURES: Record<VerifyFailure, true> = {
  queue_full: true,
  too_late: true,
  worker_lost: true,
  stopped: true,
};

it("every outcome, cause and reason counts from 0: the first webhooks refused or put off were no increase", async () => {
  const registry = new Registry();
  makeRecordMetrics(registry);
  makeDeliverMetrics(registry);
  makeVerifyMetrics(registry);
  makeIngestMetrics(registry, () => ({ requests: 0, bytes: 0 }));
  const lines = new Set((await registry.metrics()).split("\n"));
  const expected = [
    ...Object.keys(OUTCOMES).map((outcome) => `relay_ingest_requests_total{outcome="${outcome}"}`),
    ...Object.keys(CAUSES).map((cause) => `relay_ingest_unavailable_total{cause="${cause}"}`),
    ...Object.keys(DEFERRALS).map((reason) => `relay_delivery_deferrals_total{reason="${reason}"}`),
    ...Object.keys(VERIFY_FAILURES).map(
      (cause) => `relay_verify_unavailable_total{cause="${cause}"}`,
    ),
    ...["events", "attempts"].map((topic) => `relay_record_rows_total{topic="${topic}"}`),
    'relay_verify_queued{unit="requests"}',
  ];
  expect(expected.filter((series) => !lines.has(`${series} 0`))).toEqual([]);
});

it("a try that ran into its time limit of 15 s is in a bucket that ends right above: half of them seemed to take 37 s", async () => {
  const registry = new Registry();
  makeDeliverMetrics(registry).attempted("timeout", 15.02);
  const text = await registry.metrics();
  const count = (le: string) =>
    text.includes(`relay_delivery_attempt_seconds_bucket{le="${le}",status="timeout"} 1\n`);
  expect(["15", "15.5"].map(count)).toEqual([false, true]);
});

it("an end without a request takes no part in how long requests take", async () => {
  const registry = new Registry();
  const metrics = makeDeliverMetrics(registry);
  metrics.attempted("dead", null);
  metrics.attempted("dead", 2);
  const text = await registry.metrics();
  expect(text).toContain('relay_delivery_attempts_total{status="dead"} 2\n');
  expect(text).toContain('relay_delivery_attempt_seconds_count{status="dead"} 1\n');
});

it("restarts of parts are a counter, which shows the increase also where the process was restarted in between", async () => {
  const registry = new Registry();
  let restarts = 2;
  registerAppMetrics(registry, {
    parts: () => [{ name: "recorder", up: true, restarts }],
    lags: async () => [],
    isConfigPushed: () => true,
  });
  await registry.metrics();
  restarts = 3;
  const text = await registry.metrics();
  expect(text).toContain("# TYPE relay_part_restarts_total counter\n");
  expect(text).toContain('relay_part_restarts_total{part="recorder"} 3\n');
});

it("rows of fan-outs are counted with the attempts, and the help says so", async () => {
  const registry = new Registry();
  makeRecordMetrics(registry);
  expect(await registry.metrics()).toMatch(/^# HELP relay_record_rows_total .*fan-outs/m);
});
