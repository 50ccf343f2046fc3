import { afterEach, expect, test, vi } from "vitest";
import { LogError } from "../../../src/domain/log.ts";
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
