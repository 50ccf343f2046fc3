/**
 * For a suite whose store cannot be had: with CI=true that is a failure, else one loud line and a skip.
 * @returns true, so that it can stand in `describe.skipIf(...)`
 */
export function skipOrFail(store: string, why: unknown): true {
  const reason = why instanceof Error ? why.message : String(why);
  if (process.env["CI"] === "true") throw new Error(`CI needs ${store}: ${reason}`, { cause: why });
  console.warn(`SKIPPED: tests on ${store}. ${reason}. \`npm run stores\` starts one by hand.`);
  return true;
}
