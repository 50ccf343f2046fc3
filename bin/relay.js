#!/usr/bin/env node
// Checks what the program cannot check once it is loading: the Node version, the build and how many files may be open.
import { existsSync } from "node:fs";

const [major, minor] = process.versions.node.split(".").map(Number);
const supported = (major === 20 && minor >= 19) || (major === 22 && minor >= 12);
const FEWEST_OPEN_FILES = 256;
const openFiles = process.report?.getReport().userLimits?.open_files?.soft;
const program = new URL("../dist/main.js", import.meta.url);
if (!supported) {
  console.error(
    `webhook-relay needs Node 20.19+ or 22.12+, this is ${process.versions.node}: install one of them, or see "uWebSockets.js" in README.md`,
  );
  process.exitCode = 2;
} else if (!existsSync(program)) {
  console.error("webhook-relay is not built: run npm run build");
  process.exitCode = 2;
} else if (openFiles < FEWEST_OPEN_FILES) {
  console.error(
    `webhook-relay may open only ${openFiles} files: raise the limit (ulimit -n) to 1024 or more, or to ${FEWEST_OPEN_FILES} at least`,
  );
  process.exitCode = 2;
} else {
  const { main } = await import(program.href);
  process.exitCode = await main(process.argv.slice(2), process.env);
  // After a failure something may still be pending, which would keep the process, its ports and its stores open.
  if (process.exitCode !== 0) setTimeout(() => process.exit(), 500).unref();
}
