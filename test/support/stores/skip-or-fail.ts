/**
 * Handles a suite whose store is unavailable: fails with CI=true, otherwise prints one loud line and skips.
 * @returns true, so that it can stand in `describe.skipIf(...)`
 */
export function skipOrFail(store: string, why: unknown): true {
  const reason = why instanceof Error ? why.message : String(why);
  if (process.env["CI"] === "true") throw new Error(`CI needs ${store}: ${reason}`, { cause: why });
  console.warn(`SKIPPED: tests on ${store}. ${reason}. \`npm run stores\` starts one by hand.`);
  return true;
}
