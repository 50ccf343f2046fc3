// Runs dependency-cruiser over src and fails if it saw nothing (with an incompatible compiler it passes blindly).
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const cruise = (outputType, options) =>
  spawnSync(
    process.execPath,
    [
      "node_modules/dependency-cruiser/bin/dependency-cruise.mjs",
      "src",
      "--config",
      ".dependency-cruiser.cjs",
      "--output-type",
      outputType,
    ],
    { maxBuffer: 1 << 28, encoding: "utf8", ...options },
  );
const { modules, summary } = JSON.parse(cruise("json").stdout);
const seen = modules.filter((module) => module.source.startsWith("src/")).length;
const files = readdirSync("src", { recursive: true }).filter((name) => name.endsWith(".ts")).length;
if (summary.violations.length > 0) cruise("err", { stdio: "inherit" });
console.log(`rooms: ${seen} of ${files} files seen, ${summary.violations.length} violations`);
if (seen < files || summary.error > 0) process.exitCode = 1;
