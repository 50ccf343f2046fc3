import { expect, it } from "vitest";
import { runSeed } from "../support/sim-chaos.ts";

/** `SIM_SEEDS` says how many, `SIM_FIRST` where to begin, so that a failing seed can be run alone. */
const SEEDS = Number(process.env["SIM_SEEDS"] ?? 100);
const FIRST = Number(process.env["SIM_FIRST"] ?? 1);

it(
  `the delivery keeps I2, I4, I7, I8 and I9 through ${SEEDS} seeds of crashes, rebalances and changes`,
  async () => {
    const failures: string[] = [];
    for (let seed = FIRST; seed < FIRST + SEEDS && failures.length < 10; seed += 1) {
      const violations = await runSeed(seed);
      if (violations.length > 0)
        failures.push(`seed ${seed}: ${violations.slice(0, 4).join("; ")} (${violations.length})`);
    }
    expect(failures).toEqual([]);
  },
  SEEDS * 1_000 + 20_000,
);
