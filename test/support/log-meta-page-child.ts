import { writeFileSync } from "node:fs";
import { makeLogAnswers } from "./log-answers.ts";
import { openTestLog } from "./log-lmdb.ts";

/** Appends while LMDB's meta page cannot be written (see log-sync-shim.c), and after that; prints what was answered as JSON. */
const control = process.env["LOG_SYNC_CONTROL"]!;
const log = await openTestLog(process.argv[2]!);
const { answers, append } = makeLogAnswers(log, ({ code }) => code);
const TOO_LARGE_FOR_A_SEGMENT = 5_000_000;
writeFileSync(control, "0 0 5");
await append("large, not written", TOO_LARGE_FOR_A_SEGMENT);
writeFileSync(control, "0 0 0");
await append("large", TOO_LARGE_FOR_A_SEGMENT);
// Goes into segments, until so much waits that it is put into the index.
writeFileSync(control, "0 0 5");
for (let count = 0; count < 8; count += 1) await append(`waits ${count}`, 3_500_000);
writeFileSync(control, "0 0 0");
await append("large again", TOO_LARGE_FOR_A_SEGMENT);
await log[Symbol.asyncDispose]();
process.stdout.write(JSON.stringify(answers));
