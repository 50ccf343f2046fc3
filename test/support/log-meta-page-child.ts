import { writeFileSync } from "node:fs";
import { LogError } from "../../src/domain/log.ts";
import { openTestLog } from "./log-lmdb.ts";

/** Appends while LMDB's meta page cannot be written (see log-sync-shim.c), and after that; prints what was answered as JSON. */
const control = process.env["LOG_SYNC_CONTROL"]!;
const log = await openTestLog(process.argv[2]!);
const answers: [what: string, answer: number | string][] = [];
const append = async (what: string, sizeBytes: number) => {
  const value = Buffer.from(what.padEnd(sizeBytes));
  const answer = await log.append([{ topic: "events", key: "k", partition: 0, value }]).then(
    ([position]) => position!.offset,
    (error: unknown) => (error instanceof LogError ? error.code : String(error)),
  );
  answers.push([what, answer]);
};
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
