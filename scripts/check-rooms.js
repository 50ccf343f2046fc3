// Runs dependency-cruiser over src and fails when it saw nothing (an incompatible compiler makes it pass blindly).
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const cruiser = "node_modules/dependency-cruiser/bin/dependency-cruise.mjs";
const result = spawnSync(
  process.execPath,
  [cruiser, "src", "--config", ".dependency-cruiser.cjs", "--output-type", "json"],
  { maxBuffer: 1 << 28, encoding: "utf8" },
);
const { modules, summary } = JSON.parse(result.stdout);
const seen = modules.filter((module) => module.source.startsWith("src/")).length;
const files = readdirSync("src", { recursive: true }).filter((name) => name.endsWith(".ts")).length;
if (summary.violations.length > 0) {
  console.log(
    execFileSync(
      process.execPath,
      [cruiser, "src", "--config", ".dependency-cruiser.cjs", "--output-type", "err"],
      { encoding: "utf8" },
    ).toString(),
  );
}
console.log(`rooms: ${seen} of ${files} files seen, ${summary.violations.length} violations`);
if (seen < files || summary.error > 0) process.exitCode = 1;
