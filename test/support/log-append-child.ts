import { openTestLog } from "./log-lmdb.ts";

/** Appends forever, several appends in flight at a time, and prints every position once it is acknowledged. */
const log = await openTestLog(process.argv[2]!);
const run = process.argv[3]!;
let next = 0;
await Promise.all(
  Array.from({ length: 20 }, async () => {
    for (;;) {
      const n = next++;
      const value = Buffer.from(`${run}-${n}`.padEnd(200 + (n % 50) * 40, "."));
      const [event, task] = await log.append([
        { topic: "events", key: `k${n % 7}`, value },
        { topic: "tasks", key: `k${n % 7}`, value },
      ]);
      process.stdout.write(
        `${run}-${n} ${event!.partition} ${event!.offset} ${task!.partition} ${task!.offset}\n`,
      );
    }
  }),
);
