import { afterEach, expect, test, vi } from "vitest";
import { LogError } from "../../../src/domain/log.ts";
import { decodeLimit } from "../../../src/pipeline/deliver/limits/limits-codec.ts";
import { SimPartition } from "../../support/sim-log-partition.ts";
import { SimWorld } from "../../support/sim-world.ts";

afterEach(() => void vi.restoreAllMocks());

test.each([
  ["log_closed", []],
  ["log_unavailable", ["delivery.sweep_failed"]],
] as const)(
  "regression: a sweep that ends with %s warns of %j: one without brokers said that another process had the partition",
  async (code, warnings) => {
    const world = new SimWorld({ delivery: { heldSweepMs: 1_000 } });
    await world.start();
    await world.clock.advance(500);
    vi.spyOn(SimPartition.prototype, "endOffset").mockRejectedValue(new LogError(code, "not read"));
    await world.clock.advance(1_000);
    expect([...new Set(world.warnings)]).toEqual(warnings);
  },
);

test("regression: a deleted destination with a limit per day is forgotten within a minute, another is not: it was kept for two days, and written to the log at each stop", async () => {
  const world = new SimWorld();
  const kept = world.configure("dst_kept", { rateLimitMax: 9, rateLimitWindow: "day" });
  world.configure("dst_gone", { rateLimitMax: 9, rateLimitWindow: "day" });
  const first = await world.start();
  world.ingest();
  await world.clock.until(() => world.ended().size === 2, 60_000);
  world.configure("dst_kept", { receiverUrl: `${kept.receiverUrl}/moved` });
  world.remove("dst_gone");
  await world.clock.advance(60_000);
  const before = world.store.records("limits", 0).length;
  await world.stop(first);
  const written = world.store.records("limits", 0).slice(before);
  expect(written.map(({ value }) => decodeLimit(value).destinationId)).toEqual(["dst_kept"]);
});
