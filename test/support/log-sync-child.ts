import { cpSync, writeFileSync } from "node:fs";
import { LogError } from "../../src/domain/log.ts";
import { openTestLog } from "./log-lmdb.ts";

/** Appends under a slow and a failing sync (see log-sync-shim.c) and prints what happened as JSON; copies the files after the failures. */
const control = process.env["LOG_SYNC_CONTROL"]!;
const [, , dir, copy] = process.argv as [string, string, string, string];
const log = await openTestLog(dir);
const append = async (text: string) => {
  const startMs = performance.now();
  try {
    const [position] = await log.append([
      { topic: "events", key: "k", partition: 0, value: Buffer.from(text) },
    ]);
    return { ms: performance.now() - startMs, offset: position!.offset };
  } catch (error) {
    return {
      ms: performance.now() - startMs,
      code: error instanceof LogError ? error.code : error,
    };
  }
};
const fast = await append("fast");
writeFileSync(control, "400 0");
const slow = await append("slow");
writeFileSync(control, "0 5");
const failed = await append("EIO");
writeFileSync(control, "0 28");
const full = await append("ENOSPC");
cpSync(dir, copy, { recursive: true });
writeFileSync(control, "0 0");
const after = await append("after");
await log[Symbol.asyncDispose]();
process.stdout.write(JSON.stringify({ fast, slow, failed, full, after }));
