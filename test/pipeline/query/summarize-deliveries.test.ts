import { expect, test } from "vitest";
import type { StoredAttempt } from "../../../src/domain/event-store.ts";
import { summarizeDeliveries } from "../../../src/pipeline/query/summarize-deliveries.ts";
import { makeAttempt, makeEvent } from "../../support/clickhouse-events.ts";

const event = makeEvent(1);
const tried = (destinationId: string, status: StoredAttempt["status"]): StoredAttempt =>
  makeAttempt(event, { destinationId, status });

test("the latest try of a destination decides, a deferral does not", () => {
  const attempts = [
    tried("dst_1", "failed"),
    tried("dst_2", "dead"),
    tried("dst_1", "delivered"),
    tried("dst_1", "rate_limited"),
    tried("dst_3", "timeout"),
    tried("dst_2", "rate_limited"),
  ];
  expect(summarizeDeliveries(attempts, ["dst_1", "dst_2", "dst_3", "dst_4"])).toEqual({
    delivered: 1,
    failed: 1,
    pending: 2,
    total: 4,
  });
});

test("a replay begins a destination anew", () => {
  const attempts = [tried("dst_1", "dead"), tried("dst_1", "failed")];
  expect(summarizeDeliveries(attempts, ["dst_1"])).toMatchObject({ failed: 0, pending: 1 });
});

test("nobody fanned out to is not the same as never fanned out", () => {
  expect(summarizeDeliveries([], null)).toBeNull();
  expect(summarizeDeliveries([], [])).toEqual({ delivered: 0, failed: 0, pending: 0, total: 0 });
});

test("a destination that is known from its attempts alone counts", () => {
  expect(summarizeDeliveries([tried("dst_1", "rate_limited")], null)).toMatchObject({
    pending: 1,
    total: 1,
  });
});
