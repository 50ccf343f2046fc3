import { expect, it } from "vitest";
import { fuzzApi } from "../support/api-fuzz.ts";
import { startFakeHarness } from "../support/api-harness.ts";
import { idsOf, makeWorld } from "../support/api-world.ts";

it("random requests made from the document find no 5xx and no undocumented answer", async () => {
  await using harness = await startFakeHarness();
  const world = await makeWorld(harness);
  const foreign = await makeWorld(harness);
  const knownIds = [...Object.values(idsOf(world)), ...Object.values(idsOf(foreign))];
  const counts = await fuzzApi({ baseUrl: harness.baseUrl, key: world.key, runs: 600, knownIds });
  // The run is worth something only if it got past validation.
  for (const status of [200, 201, 400, 404])
    expect(counts.get(status), String(status)).toBeGreaterThan(0);
});
