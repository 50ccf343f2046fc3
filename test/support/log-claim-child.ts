import { claimDataDir } from "../../src/embedded/data-dir.ts";

/** Claims the directory, prints the outcome, and stays until its stdin ends. */
const claimed = await claimDataDir(process.argv[2]!);
process.stdout.write(`${claimed.kind}\n`);
process.stdin.resume();
process.stdin.on("end", () => {
  if (claimed.kind === "owner") void claimed[Symbol.asyncDispose]();
});
