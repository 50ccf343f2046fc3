import fc from "fast-check";
import { expect, it } from "vitest";
import type { LogRecord, Topic } from "../../../src/domain/log.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { faultyStore, openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { until } from "../../support/wait-for.ts";

const PARTITIONS = 3;
const topics = ["events", "tasks", "held"] as const satisfies readonly Topic[];

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      calls: fc.array(
        fc.array(fc.tuple(fc.nat({ max: 2 }), fc.nat({ max: 2 })), { minLength: 1, maxLength: 5 }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("fail" as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("commit" as const),
      topic: fc.nat({ max: 2 }),
      partition: fc.nat({ max: 2 }),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("trim" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("reopen" as const) }) },
);

it("agrees with a plain model under random appends, failures, commits, trims and reopens", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      await using dir = await temporaryDir();
      const faults = faultyStore();
      const open = () =>
        openTestLog(dir.path, {
          partitions: PARTITIONS,
          retentionMs: -1,
          wrapStore: faults.wrap,
          // Small, so that the memory of the latest blobs wraps around often.
          cacheBytes: 1_000,
        });
      let log = await open();
      const options = { group: "g", topics, deadlineMs: 20_000 };
      let consumer = await collect(log, options);
      const model = new Map<string, string[]>();
      const committed = new Map<string, number>();
      for (const topic of topics)
        for (let p = 0; p < PARTITIONS; p++) model.set(`${topic}/${p}`, []);
      let counter = 0;
      /** Checks that everything from the committed offsets on was handed over, in order. */
      const check = async () => {
        const wanted = [...model].flatMap(([stream, all]) =>
          all
            .slice(committed.get(stream) ?? 0)
            .map((value, i) => `${stream}/${(committed.get(stream) ?? 0) + i}=${value}`),
        );
        await until(() => consumer.records.length >= wanted.length, "records", 20_000);
        const got = consumer.records.map((r) => `${r.topic}/${r.partition}/${r.offset}=${text(r)}`);
        expect(got.toSorted()).toEqual(wanted.toSorted());
      };
      for (const action of steps) {
        switch (action.kind) {
          case "append":
          case "fail": {
            const calls = action.kind === "fail" ? [[[0, 0] as const]] : action.calls;
            if (action.kind === "fail") faults.failNext();
            const batches = calls.map((call) =>
              call.map(([t, p]) => record(topics[t]!, p, `v${counter++}`)),
            );
            const results = await Promise.allSettled(batches.map((batch) => log.append(batch)));
            for (const [index, result] of results.entries()) {
              expect(result.status).toBe(action.kind === "fail" ? "rejected" : "fulfilled");
              if (result.status === "rejected") continue;
              for (const [i, r] of batches[index]!.entries()) {
                const all = model.get(`${r.topic}/${r.partition}`)!;
                expect(result.value[i]).toEqual({ partition: r.partition, offset: all.length });
                all.push(Buffer.from(r.value).toString());
              }
            }
            break;
          }
          case "commit": {
            const stream = `${topics[action.topic]}/${action.partition}`;
            const before = consumer.records.length;
            const least = committed.get(stream) ?? 0;
            const offset = least + Math.floor((model.get(stream)!.length - least) * action.share);
            await until(() => consumer.owned.has(action.partition), "assignment", 20_000);
            await consumer.owned
              .get(action.partition)!
              .commit([{ topic: topics[action.topic]!, offset, metadata: `${before}` }]);
            // The current consumer has seen the older records; the next one starts here.
            await reopen(offset, stream);
            break;
          }
          case "trim":
            await log.trim();
            break;
          case "reopen":
            await reopen(null, "");
            break;
          default:
            action satisfies never;
        }
      }
      async function reopen(offset: number | null, stream: string) {
        await check();
        if (offset !== null) committed.set(stream, offset);
        await log[Symbol.asyncDispose]();
        log = await open();
        consumer = await collect(log, options);
      }
      await check();
      // Read from the beginning: what is left is a suffix that holds everything uncommitted.
      await log.trim();
      await until(() => consumer.owned.size === PARTITIONS, "assignment", 20_000);
      for (const [stream, all] of model) {
        const [topic, partition] = stream.split("/") as [Topic, string];
        const left: LogRecord[] = [];
        for await (const batch of consumer.owned.get(Number(partition))!.read(topic, 0))
          for (const r of batch) left.push(r);
        expect(left.length).toBeGreaterThanOrEqual(all.length - (committed.get(stream) ?? 0));
        expect(left.map(text)).toEqual(all.slice(all.length - left.length));
        expect(left.map((r) => r.offset)).toEqual(left.map((_, i) => all.length - left.length + i));
      }
      await log[Symbol.asyncDispose]();
    }),
    { numRuns: Number(process.env["RELAY_LOG_MODEL_RUNS"] ?? 5) },
  );
}, 180_000);
