import { describe, expect, it } from "vitest";
import type { LogRecord } from "../../../src/domain/log.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import type { LogHarnessKind } from "./harness.ts";
import { until } from "../../support/wait-for.ts";

/** Tests the log as delivery uses it: delay tiers, the held log, the end-of-task log. */
export function usageConformance(kind: LogHarnessKind): void {
  const { deadlineMs } = kind;
  describe("usage", () => {
    it("carries a delay tier: the forwarder waits for its head, republishes, commits, and survives a crash", async () => {
      await using harness = await kind.make();
      let log = await harness.open();
      await log.append(Array.from({ length: 6 }, (_, n) => record("delay-1s", 0, `${n}`)));
      const forward = (count: number) => {
        let done = 0;
        return collect(log, {
          group: "delay",
          topics: ["delay-1s"],
          deadlineMs,
          maxBatchBytes: 1,
          onRecords: async (partition, _topic, records) => {
            if (done >= count) return new Promise(() => {});
            for (const r of records) {
              await log.append([{ topic: "tasks", key: r.key, partition: 0, value: r.value }]);
              await partition.commit([{ topic: "delay-1s", offset: r.offset + 1 }]);
              done++;
            }
          },
        });
      };
      const first = await forward(3);
      await first.received(4);
      await harness.crash(log);
      log = await harness.open();
      await using second = await forward(10);
      await second.received(3);
      await using tasks = await collect(log, { group: "deliver", topics: ["tasks"], deadlineMs });
      expect((await tasks.received(6)).map(text)).toEqual(["0", "1", "2", "3", "4", "5"]);
      await log[Symbol.asyncDispose]();
    });

    it("carries holds: the held log is read on demand at release and committed when it was republished", async () => {
      await using harness = await kind.make();
      let log = await harness.open();
      await log.append(Array.from({ length: 200 }, (_, n) => record("held", 1, `${n}`)));
      const options = {
        group: "deliver",
        topics: ["tasks"],
        sideTopics: ["held"],
        deadlineMs,
        maxBatchBytes: 1_000,
      } as const;
      const before = await collect(log, options);
      await until(() => before.owned.has(1), "assignment", deadlineMs);
      const owned = before.owned.get(1)!;
      const end = await owned.endOffset("held");
      for await (const batch of owned.read("held", owned.committed("held")?.offset ?? 0))
        await log.append(
          batch.map((r) => ({ topic: "tasks", key: r.key, partition: 1, value: r.value })),
        );
      await owned.commit([{ topic: "held", offset: end, metadata: "released" }]);
      await before.received(200);
      await log.append([record("held", 1, "later")]);
      await harness.crash(log);

      log = await harness.open();
      const after = await collect(log, options);
      await until(() => after.owned.has(1), "assignment", deadlineMs);
      const partition = after.owned.get(1)!;
      const held: LogRecord[] = [];
      for await (const batch of partition.read("held", partition.committed("held")!.offset))
        for (const r of batch) held.push(r);
      expect(held.map(text)).toEqual(["later"]);
      await log[Symbol.asyncDispose]();
    });

    it("carries the log of ends: a new owner reads on from the position in the commit's metadata", async () => {
      await using harness = await kind.make();
      let log = await harness.open();
      await log.append(Array.from({ length: 5 }, (_, n) => record("events", 0, `${n}`)));
      const options = {
        group: "deliver",
        topics: ["events"],
        sideTopics: ["attempts"],
        deadlineMs,
      } as const;
      const before = await collect(log, options);
      await before.received(5);
      const [position] = await log.append([record("attempts", 0, "end of 1")]);
      await log.append([record("attempts", 0, "end of 3")]);
      await before.owned
        .get(0)!
        .commit([
          { topic: "events", offset: 1, metadata: JSON.stringify({ ends: position!.offset }) },
        ]);
      await harness.crash(log);

      log = await harness.open();
      const ended: string[] = [];
      const after = await collect(log, {
        ...options,
        onAssigned: async (partition) => {
          const { metadata } = partition.committed("events") ?? { metadata: "" };
          if (metadata === "") return;
          const { ends } = JSON.parse(metadata) as { ends: number };
          for await (const batch of partition.read("attempts", ends))
            for (const r of batch) ended.push(text(r).slice(-1));
        },
      });
      await after.received(4);
      expect(after.records.map(text).filter((event) => !ended.includes(event))).toEqual(["2", "4"]);
      await log[Symbol.asyncDispose]();
    });
  });
}
