import { describe, expect, it } from "vitest";
import { LogError } from "../../../src/domain/log.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { named } from "./consume.ts";
import type { LogHarnessKind } from "./harness.ts";
import { until } from "../../support/wait-for.ts";

export function durabilityConformance(kind: LogHarnessKind): void {
  const { deadlineMs } = kind;
  const withoutSync = kind.unsupported.sync !== undefined;
  const withoutTrim = kind.unsupported.trimming !== undefined;

  describe("durability", () => {
    it.skipIf(withoutSync)(
      named("resolves an append, and hands its records over, only after the sync", kind, "sync"),
      async () => {
        await using harness = await kind.make();
        await using log = await harness.open();
        await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs });
        await until(() => consumer.owned.size === kind.partitions, "assignment", deadlineMs);
        harness.sync!.hold();
        let resolved = 0;
        const appends = Array.from({ length: 5 }, async (_, n) => {
          await log.append([record("events", 0, `${n}`)]);
          resolved++;
        });
        // Long enough to expose a log that does not wait: an undisturbed append takes a few ms.
        const endMs = performance.now() + 150;
        await until(() => performance.now() > endMs, "a while");
        expect(resolved).toBe(0);
        expect(consumer.records).toEqual([]);
        harness.sync!.release();
        await Promise.all(appends);
        await consumer.received(5);
      },
    );

    it.skipIf(withoutSync)(
      named(
        "refuses the whole append when the sync fails, and goes on when it works again",
        kind,
        "sync",
      ),
      async () => {
        await using harness = await kind.make();
        const log = await harness.open();
        await log.append([record("events", 0, "before")]);
        harness.sync!.failNext();
        const refused = log.append([record("events", 0, "lost 1"), record("tasks", 1, "lost 2")]);
        await expect(refused).rejects.toBeInstanceOf(LogError);
        await expect(refused).rejects.toMatchObject({ retryable: true });
        const [position] = await log.append([record("events", 0, "after")]);
        await log[Symbol.asyncDispose]();

        await using again = await harness.open();
        await using consumer = await collect(again, {
          group: "g",
          topics: ["events", "tasks"],
          deadlineMs,
        });
        await until(() => consumer.records.some((r) => text(r) === "after"), "after", deadlineMs);
        expect(consumer.records.map(text)).toEqual(["before", "after"]);
        expect(consumer.records[1]!.offset).toBe(position!.offset);
      },
    );
  });

  describe("trimming", () => {
    it.skipIf(withoutTrim)(
      named("keeps what a group has not committed past, and only that", kind, "trimming"),
      async () => {
        await using harness = await kind.make();
        let log = await harness.open();
        for (let n = 0; n < 10; n++) await log.append([record("events", 0, `${n}`)]);
        const one = await collect(log, { group: "one", topics: ["events"], deadlineMs });
        const two = await collect(log, { group: "two", topics: ["events"], deadlineMs });
        await one.received(10);
        await two.received(10);
        await one.owned.get(0)!.commit([{ topic: "events", offset: 8 }]);
        await harness.trim!(log);
        expect(await readTexts(log, "late-1", deadlineMs)).toHaveLength(10);
        await two.owned.get(0)!.commit([{ topic: "events", offset: 6 }]);
        await log[Symbol.asyncDispose]();
        log = await harness.open();
        // "late-1" has committed nothing, so it too prevents trimming.
        await harness.trim!(log);
        expect(await readTexts(log, "late-1", deadlineMs)).toHaveLength(10);
        const late = await collect(log, { group: "late-1", topics: ["events"], deadlineMs });
        await late.received(10);
        await late.owned.get(0)!.commit([{ topic: "events", offset: 10 }]);
        await late[Symbol.asyncDispose]();
        await harness.trim!(log);
        await using fresh = await collect(log, { group: "late-2", topics: ["events"], deadlineMs });
        await fresh.received(4);
        expect(fresh.records.map(text)).toEqual(["6", "7", "8", "9"]);
        const [position] = await log.append([record("events", 0, "10")]);
        expect(position!.offset).toBe(10);
        await log[Symbol.asyncDispose]();
      },
    );

    it.skipIf(withoutTrim)(
      named("goes on counting where it was after everything was trimmed", kind, "trimming"),
      async () => {
        await using harness = await kind.make();
        let log = await harness.open();
        await log.append([record("tasks", 3, "a"), record("tasks", 3, "b")]);
        const consumer = await collect(log, { group: "g", topics: ["tasks"], deadlineMs });
        await consumer.received(2);
        await consumer.owned.get(3)!.commit([{ topic: "tasks", offset: 2 }]);
        await harness.trim!(log);
        await log[Symbol.asyncDispose]();
        log = await harness.open();
        const [position] = await log.append([record("tasks", 3, "c")]);
        expect(position).toEqual({ partition: 3, offset: 2 });
        await using again = await collect(log, { group: "g", topics: ["tasks"], deadlineMs });
        expect((await again.received(1)).map(text)).toEqual(["c"]);
        await log[Symbol.asyncDispose]();
      },
    );

    it.skipIf(withoutTrim)(
      named(
        "never trims held and delayed records that nobody has read, nor the latest limit of a key",
        kind,
        "trimming",
      ),
      async () => {
        await using harness = await kind.make();
        await using log = await harness.open();
        await log.append([record("held", 0, "h"), record("delay-4h", 0, "d")]);
        for (let n = 0; n < 300; n++) await log.append([record("limits", 0, `${n}`, `k${n % 3}`)]);
        await harness.trim!(log);
        await harness.trim!(log);
        await using consumer = await collect(log, {
          group: "g",
          topics: ["held", "delay-4h"],
          sideTopics: ["limits"],
          deadlineMs,
        });
        await consumer.received(2);
        const latest = new Map<string, string>();
        let offset = -1;
        for await (const batch of consumer.owned.get(0)!.read("limits", 0))
          for (const r of batch) {
            expect(r.offset).toBeGreaterThan(offset);
            offset = r.offset;
            latest.set(r.key, text(r));
          }
        expect(Object.fromEntries(latest)).toEqual({ k0: "297", k1: "298", k2: "299" });
        const [position] = await log.append([record("limits", 0, "300", "k0")]);
        expect(position!.offset).toBe(300);
      },
    );
  });
}

async function readTexts(
  log: Parameters<typeof collect>[0],
  group: string,
  deadlineMs: number,
): Promise<string[]> {
  await using consumer = await collect(log, { group, topics: ["events"], deadlineMs });
  await until(() => consumer.owned.has(0), "assignment", deadlineMs);
  const read: string[] = [];
  for await (const batch of consumer.owned.get(0)!.read("events", 0)) read.push(...batch.map(text));
  return read;
}
