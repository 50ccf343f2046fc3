// npm run bench: every benchmark in turn, each with its reference. Takes about half an hour on two quiet cores.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { readOptions } from "./lib/read-options.ts";

/**
 * Arguments of `tsx`, in the order an event passes through; long benchmarks run in their short form. `bench/cluster.ts` needs
 * Java and Maven for its broker; `bench/ingest/all-roles.ts`, `bench/wide-fan-out.ts`, `bench/replay.ts` and
 * `bench/slow-connections.ts` need a build.
 */
const BENCHES: readonly (readonly string[])[] = [
  ["verify.ts"],
  ["log.ts"],
  ["ingest/run.ts", "--cases", "embedded,kafka,two,postgres", "--half-load"],
  ["ingest/endurance.ts", "--soak", "120"],
  ["ingest/all-roles.ts"],
  ["slow-connections.ts"],
  ["cluster.ts"],
  ["delivery.ts"],
  ["wide-fan-out.ts"],
  ["bad-receivers.ts", "1"],
  ["api.ts"],
  ["replay.ts", "2000", "2"],
  ["events/recording.ts", "--seconds", "20"],
  ["events/main.ts", "--events", "100000"],
  ["events/postgres.ts", "--events", "100000"],
];

readOptions("npm run bench: every benchmark in turn, about half an hour", {});

const root = fileURLToPath(new URL("..", import.meta.url));
const failed: string[] = [];
for (const [file = "", ...args] of BENCHES) {
  console.log(`\n== bench/${file} ${args.join(" ")}`);
  const child = spawn(process.execPath, ["--import", "tsx", `bench/${file}`, ...args], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, NODE_OPTIONS: "--import tsx" },
  });
  const code = await new Promise((resolve) => child.once("exit", resolve));
  if (code !== 0) failed.push(file);
}
if (failed.length > 0) console.error(`failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
