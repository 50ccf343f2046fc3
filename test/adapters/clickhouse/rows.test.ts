import { expect, test } from "vitest";
import { toOutcomes, type OutcomeJson } from "../../../src/adapters/clickhouse/rows.ts";
import { ATTEMPT_DETAILS } from "../../../src/adapters/clickhouse/schema.ts";
import { makeEvent } from "../../support/clickhouse-events.ts";
import { countTurns } from "../../support/count-turns.ts";

const event = makeEvent(1);

function outcomeRow(tryNumber: number): OutcomeJson {
  const details: Record<string, string> = {
    destination_id: "dst_1",
    endpoint_id: "ep_1",
    run: "event",
    try_number: String(tryNumber),
    deferral: "0",
    attempted_at_ms: String(event.receivedAtMs + tryNumber),
    receiver_url: "https://receiver.example",
    http_status: "500",
    latency_ms: "1",
    status: "failed",
  };
  return {
    id: `atp_${tryNumber}`,
    details: Object.keys(ATTEMPT_DETAILS).map((name) => details[name] ?? null),
    response_body: "",
  };
}

test("regression: thousands of attempts are read in turns of the event loop: everything else waited for all of them", async () => {
  const rows = Array.from({ length: 5_000 }, (_, index) => outcomeRow(5_000 - index));
  using turns = countTurns();
  const { attempts } = await toOutcomes(rows, event.orgId, event);
  expect(turns.count).toBeGreaterThanOrEqual(9);
  expect(attempts.map(({ tryNumber }) => tryNumber)).toEqual(rows.map((_, index) => index + 1));
});
