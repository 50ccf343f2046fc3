import { expect, it } from "vitest";
import { findDifferences } from "../../../src/cli/demo/report.ts";
import type { DemoResult } from "../../../src/cli/demo/scenario.ts";
import { makeServiceSecret } from "../../../src/signing/standard-webhooks.ts";

it("what came out otherwise than it must is told, forged deliveries among it", () => {
  const serviceSecret = makeServiceSecret((size) => Buffer.alloc(size));
  const headers = {
    "webhook-id": "evt_1",
    "webhook-timestamp": "1",
    "webhook-signature": "v1,AAAA",
    "x-relay-destination-id": "dst_1",
  };
  const delivery = { path: "/flaky", headers, body: Buffer.from("{}"), answered: 200 };
  const result = {
    sent: [{ provider: "stripe", forged: true, status: 200, eventId: "evt_1" }],
    events: [],
    attempts: [],
    destinations: [{ id: "dst_1", path: "/flaky", serviceSecret }],
    facets: { total_events: 1, by_attempt_status: [{ value: "dead", count: 1 }] },
    receiver: { deliveries: Array.from({ length: 6 }, () => delivery) },
  } as unknown as DemoResult;
  expect(findDifferences(result)).toEqual([
    "forged webhooks answered 401: 0, expected 1",
    "recorded events: 0, expected 1",
    "rejected events with a reason: 0, expected 1",
    "recorded attempts: 0, expected 6",
    "requests that verify: 0, expected 6",
    "delivered attempts: 0, expected 1",
    "failed attempts: 0, expected 4",
  ]);
});
