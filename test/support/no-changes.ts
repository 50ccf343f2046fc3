import type { DelayedDestinations } from "../../src/pipeline/delay/ports.ts";

/** Destinations that never change. */
export const NO_CHANGES: DelayedDestinations = {
  onChange: () => () => undefined,
  onGap: () => () => undefined,
  destinationsOf: () => ({ kind: "unavailable" }),
  destination: () => ({ kind: "unavailable" }),
};
