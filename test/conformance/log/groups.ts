import { describe, expect, it } from "vitest";
import type { OwnedPartition } from "../../../src/domain/log.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { named } from "./consume.ts";
import type { LogHarnessKind } from "./harness.ts";
import { until } from "../../support/wait-for.ts";

export function groupConformance(kind: LogHarnessKind): void {
  const { deadlineMs } = kind;
  const all = Array.from({ length: kind.partitions }, (_, partition) => partition);

  describe("groups", () => {
    it("goes on at the committed offset, with its metadata, after the log was opened again", async () => {
      await using harness = await kind.make();
      const log = await harness.open();
      await log.append(Array.from({ length: 10 }, (_, n) => record("events", 1, `${n}`)));
      const before = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      await before.received(10);
      expect(before.owned.get(1)!.committed("events")).toBeNull();
      const seventh = before.records[7]!.offset;
      await before.owned.get(1)!.commit([{ topic: "events", offset: 3 }]);
      await before.owned
        .get(1)!
        .commit([{ topic: "events", offset: seventh, metadata: "märk 42" }]);
      await log[Symbol.asyncDispose]();

      await using again = await harness.open();
      await using after = await collect(again, { group: "g", topics: ["events"], deadlineMs });
      const read = await after.received(3);
      expect(read.map(text)).toEqual(["7", "8", "9"]);
      expect(after.owned.get(1)!.committed("events")).toEqual({
        offset: seventh,
        metadata: "märk 42",
      });
      expect(after.owned.get(0)!.committed("events")).toBeNull();
    });

    it("commits several topics at once, side topics too", async () => {
      await using harness = await kind.make();
      const log = await harness.open();
      await log.append([
        record("events", 0, "e"),
        record("attempts", 0, "a"),
        record("attempts", 0, "b"),
      ]);
      const options = {
        group: "g",
        topics: ["events"],
        sideTopics: ["attempts"],
        deadlineMs,
      } as const;
      const before = await collect(log, options);
      await before.received(1);
      await before.owned.get(0)!.commit([
        { topic: "events", offset: 1, metadata: "m" },
        { topic: "attempts", offset: 2 },
      ]);
      await log[Symbol.asyncDispose]();
      await using again = await harness.open();
      await using after = await collect(again, options);
      await until(() => after.owned.has(0), "assignment", deadlineMs);
      expect(after.owned.get(0)!.committed("events")).toEqual({ offset: 1, metadata: "m" });
      expect(after.owned.get(0)!.committed("attempts")?.offset).toBe(2);
    });

    it("hands over again what was not committed before a crash", async () => {
      await using harness = await kind.make();
      const log = await harness.open();
      await log.append(Array.from({ length: 20 }, (_, n) => record("events", n % 2, `${n}`)));
      const before = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      await before.received(20);
      const fifth = before.records.filter((r) => r.partition === 0)[5]!;
      await before.owned.get(0)!.commit([{ topic: "events", offset: fifth.offset }]);
      await harness.crash(log);

      await using again = await harness.open();
      await using after = await collect(again, { group: "g", topics: ["events"], deadlineMs });
      await after.received(15);
      expect(after.records.filter((r) => r.partition === 0).map(text)).toEqual([
        "10",
        "12",
        "14",
        "16",
        "18",
      ]);
      expect(after.records.filter((r) => r.partition === 1).map(text)).toEqual(
        Array.from({ length: 10 }, (_, n) => `${n * 2 + 1}`),
      );
    });

    it("keeps two groups apart", async () => {
      await using harness = await kind.make();
      const log = await harness.open();
      await log.append(Array.from({ length: 10 }, (_, n) => record("events", 0, `${n}`)));
      const fast = await collect(log, { group: "fast", topics: ["events"], deadlineMs });
      const slow = await collect(log, { group: "slow", topics: ["events"], deadlineMs });
      await fast.received(10);
      await slow.received(10);
      await fast.owned.get(0)!.commit([{ topic: "events", offset: 10, metadata: "fast" }]);
      await log[Symbol.asyncDispose]();

      await using again = await harness.open();
      await using slowAgain = await collect(again, {
        group: "slow",
        topics: ["events"],
        deadlineMs,
      });
      expect((await slowAgain.received(10)).map(text)).toEqual(
        Array.from({ length: 10 }, (_, n) => `${n}`),
      );
      expect(slowAgain.owned.get(0)!.committed("events")).toBeNull();
      await using fastAgain = await collect(again, {
        group: "fast",
        topics: ["events"],
        deadlineMs,
      });
      await until(() => fastAgain.owned.has(0), "assignment", deadlineMs);
      expect(fastAgain.owned.get(0)!.committed("events")).toEqual({ offset: 10, metadata: "fast" });
      await again.append([record("events", 0, "new")]);
      expect((await fastAgain.received(1)).map(text)).toEqual(["new"]);
    });

    it("splits the partitions between two consumers, and gives all to the one that is left", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      const options = { group: "g", topics: ["events", "tasks"], deadlineMs } as const;
      await using one = await collect(log, options);
      await until(() => one.owned.size === kind.partitions, "one has all", deadlineMs);
      const two = await collect(log, options);
      const split = () => one.owned.size + two.owned.size === kind.partitions && two.owned.size > 0;
      await until(split, "both have some", deadlineMs);
      expect(Math.abs(one.owned.size - two.owned.size)).toBeLessThanOrEqual(1);
      expect([...one.owned.keys(), ...two.owned.keys()].toSorted((a, b) => a - b)).toEqual(all);

      await log.append(
        all.flatMap((partition) => [
          record("events", partition, "e"),
          record("tasks", partition, "t"),
        ]),
      );
      await until(
        () => one.records.length + two.records.length === kind.partitions * 2,
        "all records",
        deadlineMs,
      );
      // All topics of a partition number have the same owner.
      for (const [consumer, other] of [[one, two] as const, [two, one] as const])
        for (const r of consumer.records) {
          expect(consumer.owned.has(r.partition)).toBe(true);
          expect(other.owned.has(r.partition)).toBe(false);
        }
      await two[Symbol.asyncDispose]();
      await until(() => one.owned.size === kind.partitions, "one has all again", deadlineMs);
    });

    it("lets an owner end and commit before the next one starts: no record has two owners", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      const holders = new Map<number, string>();
      const clashes: string[] = [];
      const seen: string[] = [];
      const make = (name: string) => {
        const done = new Map<number, number>();
        return collect(log, {
          group: "g",
          topics: ["events"],
          deadlineMs,
          onAssigned: async ({ partition }) => {
            if (holders.has(partition))
              clashes.push(`${partition}: ${holders.get(partition)}, ${name}`);
            done.delete(partition);
            holders.set(partition, name);
          },
          onRevoked: async (partition) => {
            if (partition.owned()) clashes.push(`${partition.partition} still says owned`);
            await new Promise((resolve) => setTimeout(resolve, 20));
            const offset = done.get(partition.partition);
            if (offset !== undefined) await partition.commit([{ topic: "events", offset }]);
            holders.delete(partition.partition);
          },
          onRecords: (partition, _topic, records) => {
            if (!partition.owned()) return;
            if (holders.get(partition.partition) !== name) clashes.push(`records for ${name}`);
            for (const r of records) seen.push(`${r.partition}/${r.offset}`);
            done.set(partition.partition, records.at(-1)!.offset + 1);
          },
        });
      };
      await using one = await make("one");
      let appended = 0;
      const stop = new AbortController();
      const load = (async () => {
        while (!stop.signal.aborted) {
          await log.append(all.map((partition) => record("events", partition, `${appended}`)));
          appended += kind.partitions;
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      })();
      await one.received(kind.partitions * 3);
      for (const name of ["two", "three", "four"]) {
        const other = await make(name);
        await until(() => other.records.length > 0, `${name} gets records`, deadlineMs);
        await other[Symbol.asyncDispose]();
      }
      stop.abort();
      await load;
      await until(() => new Set(seen).size === appended, "all records seen", deadlineMs);
      expect(clashes).toEqual([]);
      expect(seen.length).toBe(appended);
      expect(one.errors).toEqual([]);
    });

    it("ignores a commit after ownership ended", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      await log.append([record("events", 0, "a"), record("events", 0, "b")]);
      const first = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      await first.received(2);
      const stale: OwnedPartition = first.owned.get(0)!;
      await stale.commit([{ topic: "events", offset: 1, metadata: "kept" }]);
      await first[Symbol.asyncDispose]();
      expect(stale.owned()).toBe(false);
      await stale.commit([{ topic: "events", offset: 2, metadata: "too late" }]);
      await using second = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      expect((await second.received(1)).map(text)).toEqual(["b"]);
      expect(second.owned.get(0)!.committed("events")).toEqual({ offset: 1, metadata: "kept" });
    });

    it.skipIf(kind.unsupported.growth !== undefined)(
      named("keeps records and commits when it is opened with more partitions", kind, "growth"),
      async () => {
        await using harness = await kind.make();
        const log = await harness.open();
        await log.append(all.map((partition) => record("events", partition, `old ${partition}`)));
        const before = await collect(log, { group: "g", topics: ["events"], deadlineMs });
        await before.received(kind.partitions);
        await before.owned.get(2)!.commit([{ topic: "events", offset: 1, metadata: "two" }]);
        await log[Symbol.asyncDispose]();

        const more = kind.partitions * 2;
        await using grown = await harness.open({ partitions: more });
        expect(grown.partitions).toBe(more);
        await using after = await collect(grown, { group: "g", topics: ["events"], deadlineMs });
        await after.received(kind.partitions - 1);
        await until(() => after.owned.size === more, "all partitions assigned", deadlineMs);
        expect(after.owned.get(2)!.committed("events")).toEqual({ offset: 1, metadata: "two" });
        const keys = Array.from({ length: 50 }, (_, n) => `ep_${n}`);
        const positions = await grown.append(
          keys.map((key) => ({ topic: "events" as const, key, value: Buffer.from(key) })),
        );
        expect(positions.map((p) => p.partition)).toEqual(
          keys.map((key) => partitionOf(key, more)),
        );
        expect(positions.some((p) => p.partition >= kind.partitions)).toBe(true);
        await after.received(kind.partitions - 1 + 50);
      },
    );

    it.skipIf(kind.unsupported.shrinking !== undefined)(
      named("never has fewer partitions than it had", kind, "shrinking"),
      async () => {
        await using harness = await kind.make();
        const log = await harness.open();
        await log[Symbol.asyncDispose]();
        await using smaller = await harness.open({ partitions: 1 });
        expect(smaller.partitions).toBe(kind.partitions);
      },
    );
  });
}
