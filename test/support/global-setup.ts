import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Builds the program, since tests that start it run the build: it must not be older than the source. */
export function setup(): void {
  execFileSync(
    process.execPath,
    [fileURLToPath(new URL("../../scripts/build.js", import.meta.url))],
    { stdio: "inherit" },
  );
}
