import { runSeed } from "../support/sim-run.ts";

/** A message to the parent: a seed that broke a promise, or, now and then, the current seed. */
export type SeedsMessage =
  | { readonly kind: "at"; readonly seed: number }
  | { readonly kind: "failed"; readonly seed: number; readonly violations: readonly string[] };

const TELL_EVERY = 20;

const [first = 1, end = 1, stride = 1] = process.argv.slice(2).map(Number);
const tell = (message: SeedsMessage): void => void process.send?.(message);
for (let seed = first, count = 0; seed < end; seed += stride, count += 1) {
  if (count % TELL_EVERY === 0) tell({ kind: "at", seed });
  const violations = await runSeed(seed);
  if (violations.length > 0) tell({ kind: "failed", seed, violations });
}
process.disconnect?.();
