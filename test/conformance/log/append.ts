import { describe, expect, it } from "vitest";
import { LogError } from "../../../src/domain/log.ts";
import type { NewRecord, Topic } from "../../../src/domain/log.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import type { LogHarnessKind } from "./harness.ts";

const ALL: readonly Topic[] = [
  "events",
  "tasks",
  "attempts",
  "held",
  "limits",
  "delay-1s",
  "delay-4h",
];

export function appendConformance(kind: LogHarnessKind): void {
  const { deadlineMs } = kind;
  describe("append", () => {
    it("answers the positions at which the records are read", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      const batches: NewRecord[][] = [];
      for (let batch = 0; batch < 20; batch++)
        batches.push(
          Array.from({ length: 10 }, (_, index) => {
            const topic = ALL[(batch * 3 + index) % ALL.length]!;
            return record(topic, (batch + index) % kind.partitions, `${batch}/${index}`);
          }),
        );
      const positions = await Promise.all(batches.map((batch) => log.append(batch)));
      await using consumer = await collect(log, { group: "g", topics: ALL, deadlineMs });
      const read = await consumer.received(200);
      const wanted = batches.flatMap((batch, b) =>
        batch.map((r, i) => {
          const { partition, offset } = positions[b]![i]!;
          return `${r.topic}/${partition}/${offset}=${Buffer.from(r.value).toString()}`;
        }),
      );
      const got = read.map((r) => `${r.topic}/${r.partition}/${r.offset}=${text(r)}`);
      expect(got.toSorted()).toEqual(wanted.toSorted());
    });

    it("keeps the order of one call within a partition, and of calls that follow one another", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      for (let call = 0; call < 20; call++)
        await log.append(
          Array.from({ length: 25 }, (_, index) =>
            record("events", index % 2, `${call * 25 + index}`),
          ),
        );
      await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      const read = await consumer.received(500);
      for (const partition of [0, 1]) {
        const own = read.filter((r) => r.partition === partition);
        expect(own.map((r) => Number(text(r)))).toEqual(
          Array.from({ length: 500 }, (_, n) => n).filter((n) => (n % 25) % 2 === partition),
        );
        const offsets = own.map((r) => r.offset);
        expect(offsets).toEqual(offsets.toSorted((a, b) => a - b));
        expect(new Set(offsets).size).toBe(own.length);
      }
    });

    it("puts a record where its key belongs, the same partition number in every topic", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      for (const key of ["ep_1", "ep_2", "ep_ü", "x".repeat(300)]) {
        const home = partitionOf(key, log.partitions);
        const value = Buffer.from(key);
        const positions = await log.append(ALL.map((topic) => ({ topic, key, value })));
        expect(positions.map((position) => position.partition)).toEqual(ALL.map(() => home));
      }
    });

    it("gives back keys, bytes and the time of the append as they were", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      const values = [
        Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
        Buffer.from("ünïcode \u{1f600}"),
        Buffer.alloc(100_000, 7),
      ];
      const beforeMs = Date.now();
      await log.append(
        values.map((value, index) => ({
          topic: "events",
          key: `kéy-${index}`,
          partition: 0,
          value,
        })),
      );
      const afterMs = Date.now();
      await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      const read = await consumer.received(3);
      expect(read.map((r) => r.key)).toEqual(["kéy-0", "kéy-1", "kéy-2"]);
      for (const [index, r] of read.entries()) {
        expect(Buffer.from(r.value).equals(values[index]!)).toBe(true);
        expect(r.appendedAtMs).toBeGreaterThanOrEqual(beforeMs - 1_000);
        expect(r.appendedAtMs).toBeLessThanOrEqual(afterMs + 1_000);
      }
    });

    it("takes records of 12 MB", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      const value = Buffer.alloc(12 * 1024 * 1024, 42);
      value.writeUInt32BE(123_456, 5_000_000);
      await log.append([{ topic: "tasks", key: "big", partition: 1, value }]);
      await log.append([record("tasks", 1, "small")]);
      await using consumer = await collect(log, { group: "g", topics: ["tasks"], deadlineMs });
      const [big, small] = await consumer.received(2);
      expect(Buffer.from(big!.value).equals(value)).toBe(true);
      expect(text(small!)).toBe("small");
    });

    it("does nothing for no records", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      expect(await log.append([])).toEqual([]);
    });

    it("refuses with log_closed after it was disposed, and can be disposed twice", async () => {
      await using harness = await kind.make();
      const log = await harness.open();
      await log[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
      const refused = log.append([record("events", 0, "late")]);
      await expect(refused).rejects.toBeInstanceOf(LogError);
      await expect(refused).rejects.toMatchObject({ code: "log_closed", retryable: false });
    });
  });
}
