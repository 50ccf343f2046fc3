import { writeFileSync } from "node:fs";
import { constants } from "node:os";
import { makeLogAnswers } from "./log-answers.ts";
import { openTestLog } from "./log-lmdb.ts";

/** Appends while no file can be written (see log-sync-shim.c), and after that; prints what was answered as JSON. */
const control = process.env["LOG_SYNC_CONTROL"]!;
const log = await openTestLog(process.argv[2]!);
const { answers, append } = makeLogAnswers(log, ({ message }) => message);
await append("before");
// Goes into the index, which makes room there: only the writes of LMDB itself are left to fail.
await append("large", 5_000_000);
writeFileSync(control, `0 0 0 ${constants.errno.EROFS}`);
for (let count = 0; count < 20; count += 1) await append(`read-only ${count}`);
writeFileSync(control, "0 0 0 0");
await append("after");
await log[Symbol.asyncDispose]();
process.stdout.write(JSON.stringify(answers));
