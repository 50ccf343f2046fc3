import { expect, it } from "vitest";
import { LogError } from "../../../src/domain/log.ts";
import type { NewRecord, Position } from "../../../src/domain/log.ts";
import type { Logger } from "../../../src/domain/logger.ts";
import { makeDurableAppender } from "../../../src/pipeline/attempts/durable-appender.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";

const record = (key: string): NewRecord => ({ topic: "attempts", key, value: Buffer.from(key) });

function makeAppender(
  answer: (keys: string[], call: number) => void,
  logger: Logger = makeSilentLogger(),
) {
  const clock = new SimClock();
  const calls: string[][] = [];
  const appender = makeDurableAppender({
    clock,
    logger,
    log: {
      append: async (records): Promise<Position[]> => {
        const keys = records.map(({ key }) => key);
        calls.push(keys);
        answer(keys, calls.length);
        return records.map((_, offset) => ({ partition: 0, offset }));
      },
    },
  });
  return { clock, calls, appender };
}

it("writes calls made close together in one batch, and tells each its own positions", async () => {
  const { clock, calls, appender } = makeAppender(() => undefined);
  const one = appender.append([record("a"), record("b")], () => true);
  const two = appender.append([record("c")], () => true);
  await clock.advance(50);
  expect(calls).toEqual([["a", "b", "c"]]);
  expect((await one)?.map(({ offset }) => offset)).toEqual([0, 1]);
  expect((await two)?.map(({ offset }) => offset)).toEqual([2]);
});

it("what nobody waits for goes with what is wanted now: each deferral was a commit that ends of tries waited behind", async () => {
  const { clock, calls, appender } = makeAppender(() => undefined);
  const patient = appender.append([record("a")], () => true, "soon");
  await clock.advance(20);
  expect(calls).toEqual([]);
  const urgent = appender.append([record("b")], () => true);
  void appender.append([record("c")], () => true, "soon");
  await clock.advance(3);
  // In separate calls: megabytes of deferrals would keep the end of a try waiting.
  expect(calls).toEqual([["b"], ["a", "c"]]);
  expect(await patient).toHaveLength(1);
  expect(await urgent).toHaveLength(1);
});

it("what nobody waits for is written within 50 ms, whatever comes: also behind what was written meanwhile", async () => {
  const { clock, calls, appender } = makeAppender(() => undefined);
  void appender.append([record("a")], () => true, "soon");
  await clock.advance(40);
  void appender.append([record("b")], () => true, "soon");
  await clock.advance(10);
  expect(calls).toEqual([["a", "b"]]);
  void appender.append([record("c")], () => true, "soon");
  await clock.advance(49);
  expect(calls).toHaveLength(1);
  await clock.advance(1);
  expect(calls[1]).toEqual(["c"]);
});

it("goes on trying while the log is away", async () => {
  const { clock, calls, appender } = makeAppender((_, call) => {
    if (call < 4) throw new LogError("log_unavailable", "away");
  });
  const written = appender.append([record("a")], () => true);
  await clock.advance(5_000);
  expect(calls).toHaveLength(4);
  expect(await written).toHaveLength(1);
});

it("tries every two seconds at least, however long the log was away: tries would end hours after it is back", async () => {
  let isAway = true;
  const { clock, appender } = makeAppender(() => {
    if (isAway) throw new LogError("log_unavailable", "away");
  });
  let isWritten = false;
  void appender.append([record("a")], () => true).then(() => (isWritten = true));
  await clock.advance(10 * 60_000);
  isAway = false;
  await clock.advance(2_000);
  expect(isWritten).toBe(true);
});

it("512 calls, or four megabytes, wait for no more, and those after them do: larger calls would hold up what comes behind", async () => {
  const { clock, calls, appender } = makeAppender(() => undefined);
  const large = { ...record("large"), value: Buffer.alloc(1_048_576) };
  for (const batch of [
    Array.from({ length: 512 }, () => record("small")),
    Array.from({ length: 4 }, () => large),
  ]) {
    calls.length = 0;
    for (const one of batch) void appender.append([one], () => true);
    void appender.append([record("after")], () => true);
    expect(calls.map((keys) => keys.length)).toEqual([batch.length]);
    await clock.advance(3);
    expect(calls.at(-1)).toEqual(["after"]);
  }
});

it("regression: repeats only what is missing: one partition that took nothing held back the ends of all others", async () => {
  let refuses = true;
  const { clock, calls, appender } = makeAppender((keys) => {
    if (!refuses || !keys.includes("bad")) return;
    const appended = keys.map((key, offset) => (key === "bad" ? null : { partition: 1, offset }));
    throw new LogError("log_unavailable", "refused", { appended });
  });
  const good = appender.append([record("a"), record("b")], () => true);
  const bad = appender.append([record("c"), record("bad")], () => true);
  await clock.advance(1_000);
  expect(await good).toEqual([
    { partition: 1, offset: 0 },
    { partition: 1, offset: 1 },
  ]);
  expect(calls[0]).toEqual(["a", "b", "c", "bad"]);
  expect(calls.slice(1).every((keys) => keys.join() === "bad")).toBe(true);
  refuses = false;
  await clock.advance(2_000);
  expect(await bad).toHaveLength(2);
});

it("regression: of one call, too, only what is missing is repeated: while one delay topic took nothing, what left another was written to tasks again every two seconds", async () => {
  let takes = "";
  const { clock, calls, appender } = makeAppender((keys, call) => {
    if (keys.every((key) => takes.includes(key))) return;
    const appended = keys.map((key) =>
      takes.includes(key) ? { partition: call, offset: calls.length } : null,
    );
    throw new LogError("log_unavailable", "refused", { appended });
  });
  takes = "ac";
  const whole = appender.append(["a", "b", "c", "d"].map(record), () => true);
  await clock.advance(50);
  takes = "acd";
  await clock.advance(100);
  takes = "abcd";
  await clock.advance(2_000);
  expect(calls).toEqual([["a", "b", "c", "d"], ["b", "d"], ["b"]]);
  expect(await whole).toEqual([
    { partition: 1, offset: 1 },
    { partition: 0, offset: 0 },
    { partition: 1, offset: 1 },
    { partition: 2, offset: 2 },
  ]);
});

it("repeats what is missing wherever it stands: what came behind it, and is there, is not written twice", async () => {
  const { clock, calls, appender } = makeAppender((keys) => {
    if (!keys.includes("good")) return;
    const appended = keys.map((key, offset) => (key === "bad" ? null : { partition: 1, offset }));
    throw new LogError("log_unavailable", "refused", { appended });
  });
  const bad = appender.append([record("bad")], () => true);
  const good = appender.append([record("good"), record("b")], () => true);
  const last = appender.append([record("c")], () => true);
  await clock.advance(2_000);
  expect(calls).toEqual([["bad", "good", "b", "c"], ["bad"]]);
  expect((await good)?.map(({ offset }) => offset)).toEqual([1, 2]);
  expect((await last)?.map(({ offset }) => offset)).toEqual([3]);
  expect(await bad).toHaveLength(1);
});

it("gives up with null when nobody needs the records any more", async () => {
  let needed = true;
  const { clock, appender } = makeAppender(() => {
    throw new LogError("log_unavailable", "away");
  });
  const written = appender.append([record("a")], () => needed);
  await clock.advance(1_000);
  needed = false;
  await clock.advance(5_000);
  expect(await written).toBeNull();
});

it("asks once more right before it writes: the process may have stood still meanwhile", async () => {
  let needed = true;
  const { clock, calls, appender } = makeAppender(() => undefined);
  const late = appender.append([record("a")], () => needed);
  const other = appender.append([record("b")], () => true);
  needed = false;
  await clock.advance(50);
  expect(await late).toBeNull();
  expect(await other).toHaveLength(1);
  expect(calls).toEqual([["b"]]);
});

it("one record that can never be written does not take its neighbours with it", async () => {
  const { clock, appender } = makeAppender((keys) => {
    if (keys.includes("huge")) throw new LogError("log_record_too_large", "too large");
  });
  const bad = appender.append([record("huge")], () => true).catch((error: unknown) => error);
  const good = appender.append([record("a")], () => true);
  await clock.advance(100);
  expect(await bad).toMatchObject({ code: "log_record_too_large" });
  expect(await good).toHaveLength(1);
});

it("tells at most every 5 s that the log is away, and of how many calls: each try in flight told it with a stack", async () => {
  const told: unknown[] = [];
  const logger = makeSilentLogger((_, message, fields) => {
    if (message === "log.append_retried" && "calls" in fields) told.push(fields.calls);
  });
  const { clock, appender } = makeAppender(() => {
    throw new LogError("log_unavailable", "away");
  }, logger);
  for (let call = 0; call < 200; call += 1) {
    void appender.append([record("a")], () => true);
    await clock.advance(5);
  }
  await clock.advance(8_000);
  expect(told).toHaveLength(2);
  expect(told[1]).toBeGreaterThan(200);
});
