/** An arbitrary number that makes every run in CI try the same values. Elsewhere each run tries others. */
const SEED = 20_261_123;

if (process.env["CI"] === "true") {
  const { default: fc } = await import("fast-check");
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: SEED });
}
