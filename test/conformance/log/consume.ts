import { describe, expect, it } from "vitest";
import type { LogRecord, OwnedPartition } from "../../../src/domain/log.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import type { LogHarnessKind } from "./harness.ts";
import { until } from "../../support/wait-for.ts";

export function consumeConformance(kind: LogHarnessKind): void {
  const { deadlineMs } = kind;
  const all = Array.from({ length: kind.partitions }, (_, partition) => partition);

  describe("consume", () => {
    it("hands over what is appended while it listens", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs });
      await until(() => consumer.owned.size === kind.partitions, "assignment", deadlineMs);
      for (let n = 0; n < 10; n++) {
        await log.append([record("events", n % kind.partitions, `${n}`)]);
        await consumer.received(n + 1);
      }
      expect(consumer.records.map(text)).toEqual(Array.from({ length: 10 }, (_, n) => `${n}`));
    });

    it("regression: a consumer that is begun while the log is closed does not come up: it stayed open on a log that was closed", async () => {
      await using harness = await kind.make();
      const log = await harness.open();
      const assigned: number[] = [];
      const errors: Error[] = [];
      const beginning = log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async ({ partition }) => void assigned.push(partition),
        onRevoked: async () => undefined,
        onRecords: () => undefined,
        onError: (error) => errors.push(error),
      });
      const begun = beginning.then(
        () => "open",
        ({ code }: { readonly code: string }) => code,
      );
      await log[Symbol.asyncDispose]();
      expect(await begun).not.toBe("open");
      expect(assigned).toEqual([]);
      expect(errors).toEqual([]);
    });

    it("waits for onAssigned before the first record of a partition", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      await log.append(all.map((partition) => record("events", partition, "x")));
      let release = () => {};
      const gate = new Promise<void>((resolve) => {
        release = resolve;
      });
      const asked = new Set<number>();
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs,
        onAssigned: async ({ partition }) => {
          asked.add(partition);
          if (partition === 1) await gate;
        },
      });
      await until(() => asked.has(1), "assignment", deadlineMs);
      if (kind.partitions > 1) await log.append([record("events", 1, "y")]);
      expect(consumer.records.some((r) => r.partition === 1)).toBe(false);
      release();
      await consumer.received(kind.partitions + 1);
    });

    it("holds the next batch of a partition and topic until onRecords has resolved", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      let running = 0;
      let most = 0;
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs,
        maxBatchBytes: 200,
        onRecords: async () => {
          running++;
          most = Math.max(most, running);
          await new Promise((resolve) => setImmediate(resolve));
          running--;
        },
      });
      for (let n = 0; n < 50; n++) await log.append([record("events", 0, `${n}`.padStart(100))]);
      await consumer.received(50);
      expect(most).toBe(1);
      expect(consumer.records.map((r) => Number(text(r)))).toEqual(
        Array.from({ length: 50 }, (_, n) => n),
      );
    });

    it("lets the other topics of a partition flow while one waits in onRecords, and goes on where it was: nothing lost and nothing twice", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      let release = () => {};
      const gate = new Promise<void>((resolve) => {
        release = resolve;
      });
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events", "tasks"],
        deadlineMs,
        onRecords: (_partition, topic) => (topic === "events" ? gate : undefined),
      });
      await log.append([record("events", 0, "0")]);
      await consumer.received(1);
      for (let n = 1; n <= 10; n++) await log.append([record("events", 0, `${n}`)]);
      // By the time the other topic's record has arrived, a record that did not wait would have arrived too.
      await log.append([record("tasks", 0, "other")]);
      await until(
        () => consumer.records.some((r) => text(r) === "other"),
        "the other topic",
        deadlineMs,
      );
      expect(consumer.records.filter((r) => r.topic === "events").map(text)).toEqual(["0"]);
      release();
      await consumer.received(12);
      expect(consumer.records.filter((r) => r.topic === "events").map(text)).toEqual(
        Array.from({ length: 11 }, (_, n) => `${n}`),
      );
    });

    it("reads side topics on demand, from any offset to the end at the call", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      const positions = await log.append(
        Array.from({ length: 30 }, (_, n) => record("attempts", 2, `${n}`)),
      );
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        sideTopics: ["attempts"],
        deadlineMs,
        maxBatchBytes: 500,
      });
      await until(() => consumer.owned.size === kind.partitions, "assignment", deadlineMs);
      const owned = consumer.owned.get(2)!;
      const end = positions.at(-1)!.offset + 1;
      expect(await owned.endOffset("attempts")).toBe(end);
      expect(await owned.endOffset("events")).toBe(0);
      expect((await readAll(owned, "attempts", 0)).map(text)).toEqual(
        Array.from({ length: 30 }, (_, n) => `${n}`),
      );
      expect((await readAll(owned, "attempts", positions[27]!.offset)).map(text)).toEqual([
        "27",
        "28",
        "29",
      ]);
      expect(await readAll(owned, "attempts", end)).toEqual([]);
      expect(await readAll(owned, "events", 0)).toEqual([]);
      expect(consumer.records).toEqual([]);
    });

    it("ends a read at the end as it was, while more is appended", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      await log.append(Array.from({ length: 20 }, (_, n) => record("limits", 0, `${n}`, `k${n}`)));
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        sideTopics: ["limits"],
        deadlineMs,
        maxBatchBytes: 200,
      });
      await until(() => consumer.owned.has(0), "assignment", deadlineMs);
      const read: LogRecord[] = [];
      for await (const batch of consumer.owned.get(0)!.read("limits", 0)) {
        for (const r of batch) read.push(r);
        await log.append([record("limits", 0, "more", `more-${read.length}`)]);
      }
      expect(read.slice(0, 20).map(text)).toEqual(Array.from({ length: 20 }, (_, n) => `${n}`));
      expect(read.length).toBeLessThanOrEqual(21);
    });

    it("keeps a batch near the size asked for", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      await log.append(
        Array.from({ length: 40 }, (_, n) => record("events", 0, `${n}`.padStart(1_000))),
      );
      const sizes: number[] = [];
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs,
        maxBatchBytes: 10_000,
        onRecords: (_partition, _topic, records) => {
          sizes.push(records.reduce((sum, r) => sum + r.value.length, 0));
        },
      });
      await consumer.received(40);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(10_000);
    });

    it.skipIf(kind.unsupported.restartAfterThrow !== undefined)(
      named(
        "tells of a consumer that throws, and hands its records over again",
        kind,
        "restartAfterThrow",
      ),
      async () => {
        await using harness = await kind.make();
        await using log = await harness.open();
        let failures = 0;
        await using consumer = await collect(log, {
          group: "g",
          topics: ["events"],
          deadlineMs,
          onRecords: () => {
            if (failures++ === 0) throw new Error("bad consumer");
          },
        });
        await log.append([record("events", 3, "again")]);
        await consumer.received(2);
        expect(consumer.records.map(text)).toEqual(["again", "again"]);
        expect(consumer.errors.map((error) => error.message)).toContain("bad consumer");
      },
    );

    it("tells its lag by topic", async () => {
      await using harness = await kind.make();
      await using log = await harness.open();
      await log.append(all.map((partition) => record("events", partition, "x")));
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events", "tasks"],
        deadlineMs,
      });
      await consumer.received(kind.partitions);
      expect((await consumer.consumer.lag()).get("events")).toBe(kind.partitions);
      const last = consumer.records.find((r) => r.partition === 0)!;
      await consumer.owned.get(0)!.commit([{ topic: "events", offset: last.offset + 1 }]);
      const lag = await consumer.consumer.lag();
      expect(lag.get("events")).toBe(kind.partitions - 1);
      expect(lag.get("tasks")).toBe(0);
    });

    it("tells no lag where it owns no partition: 0 would say that all is done", async () => {
      await using harness = await kind.make();
      await using log = await harness.open({ partitions: 1 });
      await log.append([record("events", 0, "x")]);
      const options = { group: "g", topics: ["events"], deadlineMs } as const;
      await using one = await collect(log, options);
      await using other = await collect(log, options);
      const told = async () => {
        return [...(await one.consumer.lag()), ...(await other.consumer.lag())];
      };
      const isRight = async () => JSON.stringify(await told()) === '[["events",1]]';
      // The lag is unknown while the group settles.
      await until(() => isRight().catch(() => false), "the lag of the owner alone", deadlineMs);
    });
  });
}

async function readAll(owned: OwnedPartition, topic: "attempts" | "events", from: number) {
  const records: LogRecord[] = [];
  for await (const batch of owned.read(topic, from)) for (const r of batch) records.push(r);
  return records;
}

/** Marks in its name a test that the adapter does not support. */
export function named(
  name: string,
  kind: LogHarnessKind,
  capability: keyof LogHarnessKind["unsupported"],
): string {
  const reason = kind.unsupported[capability];
  return reason === undefined ? name : `NOT CHECKED on ${kind.name} (${reason}): ${name}`;
}
