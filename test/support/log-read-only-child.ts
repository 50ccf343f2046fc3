import { writeFileSync } from "node:fs";
import { constants } from "node:os";
import { LogError } from "../../src/domain/log.ts";
import { openTestLog } from "./log-lmdb.ts";

/** Appends while no file can be written (see log-sync-shim.c), and after that; prints what was answered as JSON. */
const control = process.env["LOG_SYNC_CONTROL"]!;
const log = await openTestLog(process.argv[2]!);
const answers: [what: string, answer: number | string][] = [];
const append = async (what: string) => {
  const answer = await log
    .append([{ topic: "events", key: "k", partition: 0, value: Buffer.from(what) }])
    .then(
      ([position]) => position!.offset,
      (error: unknown) => (error instanceof LogError ? error.message : String(error)),
    );
  answers.push([what.trim(), answer]);
};
await append("before");
// Goes into the index, which makes room there: only the writes of LMDB itself are left to fail.
await append("large".padEnd(5_000_000));
writeFileSync(control, `0 0 0 ${constants.errno.EROFS}`);
for (let count = 0; count < 20; count += 1) await append(`read-only ${count}`);
writeFileSync(control, "0 0 0 0");
await append("after");
await log[Symbol.asyncDispose]();
process.stdout.write(JSON.stringify(answers));
