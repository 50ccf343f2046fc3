import type { ClickHouseClient, QueryParams } from "@clickhouse/client";
import { expect, test } from "vitest";
import { DistinctParts } from "../../../src/adapters/clickhouse/distinct-parts.ts";
import { toPart, type Part } from "../../../src/adapters/clickhouse/parts.ts";
import { makeEventStoreReader } from "../../../src/adapters/clickhouse/queries.ts";
import type { Reading } from "../../../src/adapters/clickhouse/reading.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";
import { BASE_TIME_MS } from "../../support/clickhouse-events.ts";
import { DAY_MS, PartsModel, type ModelRow } from "../../support/parts-model.ts";
import { seededRandom } from "../../support/sim-clock.ts";

const row = (key: string, timeMs: number, value = "a"): ModelRow => ({ key, timeMs, value });

interface Rig {
  readonly model: PartsModel;
  readonly parts: DistinctParts;
  /** The start time of each check. */
  readonly checks: number[];
  readonly ask: () => Promise<Reading | undefined>;
  /** Asks again when nothing has changed for a minute. */
  readonly askLater: () => Promise<Reading | undefined>;
  nowMs: number;
}

function rig(overrides: { readonly takesMs?: number; readonly refused?: boolean } = {}): Rig {
  const model = new PartsModel("events");
  const made: Rig = {
    model,
    checks: [],
    nowMs: 0,
    parts: new DistinctParts({
      list: async () => model.list(),
      areDistinct: async (_table, names, fromMs) => {
        made.checks.push(fromMs);
        made.nowMs += overrides.takesMs ?? 0;
        if (overrides.refused === true) throw new Error("query_limit");
        return model.areDistinct(names, fromMs);
      },
      monotonic: () => made.nowMs,
    }),
    ask: async () => {
      const reading = await made.parts.ask(async (readings) => readings.get("events"));
      await made.parts.checked();
      return reading;
    },
    askLater: async () => {
      await made.ask();
      made.nowMs += 60_000;
      return made.ask();
    },
  };
  return made;
}

test("parts are distinct once they were looked through, and what they are merged into is as well", async () => {
  const { model, ask, askLater, checks } = rig();
  model.insert([row("a", 1_000)]);
  model.insert([row("b", 2_000)]);
  expect(await ask()).toMatchObject({ distinct: [], isComplete: false });
  expect(await ask()).toMatchObject({ distinct: ["day0_1_1_0", "day0_2_2_0"], isComplete: true });
  model.merge("day0", 0, 2);
  expect(await askLater()).toMatchObject({ distinct: ["day0_1_2_1"], isComplete: true });
  expect(checks).toEqual([1_000]);
});

test("of what came since only its own times are looked through, and parts that reach into them are read up to there", async () => {
  const { model, ask, askLater, checks } = rig();
  model.insert([row("a", 1_000), row("b", 500_000)]);
  model.insert([row("c", 2_000)]);
  await ask();
  model.insert([row("d", 400_500), row("e", 450_000)]);
  expect(await ask()).toMatchObject({
    distinct: ["day0_2_2_0"],
    early: ["day0_1_1_0"],
    spans: [{ fromMs: 1_000, untilMs: 400_000 }],
  });
  expect(checks).toEqual([1_000, 400_000]);
  expect(await askLater()).toMatchObject({ isComplete: true });
});

test("a part that ends in the second before what came is not looked through again: it would be missed there", async () => {
  const { model, ask, askLater, checks } = rig();
  model.insert([row("a", 1_900)]);
  model.insert([row("b", 2_000)]);
  await ask();
  model.insert([row("c", 2_100)]);
  await ask();
  expect(await askLater()).toMatchObject({ isComplete: true });
  expect(checks).toEqual([1_000, 2_000]);
});

test("the last minute of a day that is written to is read without knowledge, so what comes and is merged there disturbs no question", async () => {
  const { model, parts, ask, askLater, checks } = rig();
  const minute = 60_000;
  model.insert([row("a", minute)]);
  model.insert([row("b", 10 * minute)]);
  expect(await askLater()).toMatchObject({ isComplete: true });
  model.insert([row("c", 10 * minute + 1)]);
  await ask();
  const tail = { distinct: ["day0_1_1_0"], early: [], spans: [], isComplete: false };
  const asked: unknown[] = [];
  await parts.ask(async (readings) => {
    asked.push(readings.get("events"));
    model.insert([row("c", 10 * minute + 1), row("d", 10 * minute + 2)]);
    model.merge("day0", 1, 2);
  });
  expect(asked).toMatchObject([tail]);
  model.merge("day0", 1, 2);
  await ask();
  expect(await askLater()).toMatchObject({ isComplete: true });
  expect(checks[0]).toBe(minute);
  expect(checks.slice(1).every((fromMs) => fromMs === 10 * minute)).toBe(true);
});

test("a row that came again keeps its time's parts from being taken for distinct until a merge has dropped it", async () => {
  const { model, askLater } = rig();
  model.insert([row("a", 1_000)]);
  model.insert([row("b", 2_000)]);
  await askLater();
  model.insert([row("b", 2_000)]);
  for (let round = 0; round < 3; round += 1)
    expect(await askLater()).toMatchObject({ distinct: ["day0_1_1_0"], isComplete: false });
  model.merge("day0", 1, 2);
  expect(await askLater()).toMatchObject({
    distinct: ["day0_1_1_0", "day0_2_3_1"],
    isComplete: true,
  });
});

test("a day that is one merged part needs no look", async () => {
  const { model, ask, checks } = rig();
  model.insert([row("a", 1_000)]);
  model.insert([row("a", 1_000)]);
  model.merge("day0", 0, 2);
  expect(await ask()).toMatchObject({ distinct: ["day0_1_2_1"], isComplete: true });
  expect(checks).toEqual([]);
});

test("asks once while the parts stay, again when they changed meanwhile, and at last without knowledge", async () => {
  const { model, parts, ask, askLater } = rig();
  model.insert([row("a", 1_000), row("z", 600_000)]);
  await ask();
  const asked: (boolean | undefined)[] = [];
  const disturbed = async (changes: number): Promise<void> => {
    asked.length = 0;
    await parts.ask(async (readings) => {
      asked.push(readings.get("events")?.isComplete);
      if (asked.length <= changes) model.insert([row("a", 1_000)]);
    });
  };
  await disturbed(0);
  expect(asked).toEqual([true]);
  await disturbed(1);
  expect(asked).toEqual([true, false]);
  model.merge("day0", 0, 9);
  await askLater();
  const merging: unknown[] = [];
  await parts.ask(async (readings) => {
    merging.push(readings.get("events")?.isComplete);
    model.merge("day0", 0, 9);
  });
  expect(merging).toEqual([true, false, false, undefined]);
});

test("a day that began after the parts were listed is counted", async () => {
  const { model, parts, ask, askLater } = rig();
  model.insert([row("a", 1_000)]);
  await ask();
  expect(await askLater()).toMatchObject({ isComplete: true });
  model.insert([row("b", DAY_MS)]);
  const counted = await parts.ask((readings) =>
    model.count(readings.get("events"), async () => {}),
  );
  expect(counted).toBe(model.truth());
});

test("a row that comes again while it is counted counts once, also in a day that is known while another one is not", async () => {
  const { model, parts, ask } = rig({ refused: true });
  const again = [row("a", 1_000)];
  model.insert(again);
  model.insert(again);
  model.merge("day0", 0, 2);
  model.insert([row("b", DAY_MS)]);
  expect(await ask()).toMatchObject({ distinct: ["day0_1_2_1"], isComplete: false });
  const among = async (): Promise<void> => {
    if (model.rows().length === 2) model.insert(again);
  };
  const counted = await parts.ask((readings) => model.count(readings.get("events"), among));
  expect(counted).toBe(model.truth());
});

test("a check that failed is made again after a rest that grows with the time it takes", async () => {
  const made = rig({ takesMs: 100, refused: true });
  made.model.insert([row("a", 1_000)]);
  const pauses: number[] = [];
  for (let step = 0; step < 400; step += 1) {
    const before = made.checks.length;
    await made.ask();
    if (made.checks.length > before) pauses.push(step);
    made.nowMs += 1_000;
  }
  // Ten times the 100 ms of a check, doubled after each failure, up to 64-fold.
  expect(pauses).toEqual([0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]);
});

test("where parts may not be seen, every question is asked without knowledge", async () => {
  const parts = new DistinctParts({
    list: async () => null,
    areDistinct: () => Promise.reject(new Error("not to be asked")),
    monotonic: () => 0,
  });
  expect(await parts.ask(async (readings) => readings.size)).toBe(0);
});

test("names at most 300 parts, the largest ones, and takes the others as if nothing were known", async () => {
  const list: Part[] = Array.from({ length: 1_000 }, (_, index) => ({
    table: "events",
    day: `day${index}`,
    name: `part${index}`,
    lastBlock: index,
    isCollapsed: true,
    fromMs: index * DAY_MS,
    untilMs: index * DAY_MS + 1_000,
    storedIn: "store",
    startedS: 0,
  }));
  const parts = new DistinctParts({
    list: async () => list,
    areDistinct: () => Promise.reject(new Error("each is known by itself")),
    monotonic: () => 0,
  });
  const reading = await parts.ask(async (readings) => readings.get("events"));
  expect(reading!.distinct).toEqual(list.slice(0, 300).map(({ name }) => name));
  expect(reading).toMatchObject({ early: [], isComplete: false });
});

test("a server that has started anew may give its numbers once more: nothing of before is known then", async () => {
  const { model, ask } = rig();
  model.insert([row("a", 1_000)]);
  model.insert([row("b", 2_000)]);
  await ask();
  expect(await ask()).toMatchObject({ isComplete: true });
  model.restart();
  model.insert([row("a", 1_000)]);
  expect(await ask()).toMatchObject({ distinct: [], isComplete: false });
});

test("a table that was made anew numbers its parts once more: nothing of the former one is known of them", async () => {
  const model = new PartsModel("events");
  let storedIn = "former";
  const parts = new DistinctParts({
    list: async () => model.list().map((part) => Object.assign({}, part, { storedIn })),
    areDistinct: async (_table, names, fromMs) => model.areDistinct(names, fromMs),
    monotonic: () => 0,
  });
  const ask = async () => {
    const reading = await parts.ask(async (readings) => readings.get("events"));
    await parts.checked();
    return reading;
  };
  model.insert([row("a", 1_000)]);
  model.insert([row("b", 2_000)]);
  await ask();
  expect(await ask()).toMatchObject({ isComplete: true });
  storedIn = "new";
  expect(await ask()).toMatchObject({ distinct: [], isComplete: false });
});

test("parts with a row stored twice, or merged away while they were looked through, are not taken for distinct", async () => {
  const listed = [1, 2].map((block) => ({
    table: "events",
    day: "20261120",
    name: `20261120_${block}_${block}_0`,
    last_block: block,
    is_collapsed: 0,
    first_s: 1_795_000_000,
    last_s: 1_795_000_000,
    stored_in: "store",
    started_s: 1,
  }));
  let found = { parts: 1, stored: 2 };
  const counts: string[] = [];
  const answers = async ({ query }: QueryParams): Promise<object[]> => {
    if (query.includes("system.parts")) return listed;
    if (query.includes("uniqExact(_part)")) return [{ ...found, different: 2 }];
    counts.push(query);
    return [{ count: 2 }];
  };
  const client = {
    query: async (asked: QueryParams) => ({ json: () => answers(asked), close: () => undefined }),
  } as unknown as ClickHouseClient;
  let nowMs = BASE_TIME_MS;
  const clock = { now: () => nowMs, monotonic: () => nowMs };
  const reader = makeEventStoreReader(client, {}, clock);
  const ask = async (): Promise<string> => {
    nowMs += 60_000;
    await reader.count("org_a", { terms: [] });
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    return counts.at(-1)!;
  };
  await ask();
  expect(await ask()).toContain("FINAL");
  found = { parts: 2, stored: 3 };
  await ask();
  expect(await ask()).toContain("FINAL");
  found = { parts: 2, stored: 2 };
  await ask();
  expect(await ask()).not.toContain("FINAL");
});

test("a server that does not tell the times of its parts is read without splitting them", async () => {
  const { model, ask } = rig();
  model.insert([row("a", 1_000)]);
  await ask();
  model.insert([row("a", 1_000), row("b", 0)]);
  expect(await ask()).toMatchObject({ distinct: [], early: [], isComplete: false });
  const listed = { table: "events", day: "day0", name: "day0_1_1_0", last_block: 1 } as const;
  const untold = { is_collapsed: 0, first_s: 0, last_s: 0, stored_in: "store", started_s: 1 };
  expect(toPart({ ...listed, ...untold })).toMatchObject({ fromMs: 0, untilMs: Infinity });
});

/** Makes random steps: inserts, rows that come again with another value, merges, lost days and restarts. */
function makeChaos(model: PartsModel, random: () => number): () => void {
  let seed = 0;
  const draw = (below: number): number => Math.floor(random() * below);
  const aRow = (): ModelRow => {
    const known = model.rows();
    const value = ["a", "b", "c"][draw(3)]!;
    if (known.length > 0 && random() < 0.03) return { ...known[draw(known.length)]!, value };
    seed += 1;
    const late = random() < 0.2 ? draw(DAY_MS) : draw(900_000);
    return row(`key${seed}`, Math.max(0, seed * 600_000 - late), value);
  };
  return () => {
    const dice = random();
    const days = model.days();
    if (dice < 0.4) model.insert(Array.from({ length: 1 + draw(5) }, aRow));
    else if (dice < 0.9 && days.length > 0)
      model.merge(days[draw(days.length)]!, draw(4), 1 + draw(random() < 0.4 ? 50 : 4));
    else if (dice < 0.92 && days.length > 1) model.drop(days[0]!);
    else if (dice < 0.93) model.restart();
  };
}

test("counts are those of some moment of their question, whatever comes, is merged, goes or comes again meanwhile", async () => {
  let known = 0;
  for (let run = 1; run <= 300; run += 1) {
    const random = seededRandom(run);
    const model = new PartsModel("attempts");
    const happens = makeChaos(model, random);
    const truths: string[] = [];
    const among = async (): Promise<void> => {
      while (random() < 0.12) {
        happens();
        truths.push(model.truth());
      }
      await Promise.resolve();
    };
    let nowMs = 0;
    const parts = new DistinctParts({
      list: async () => {
        await among();
        const listed = model.list();
        await among();
        return listed;
      },
      areDistinct: async (_table, names, fromMs) => {
        await among();
        const answer = model.areDistinct(names, fromMs);
        await among();
        return answer;
      },
      monotonic: () => (nowMs += 50 * random()),
    });
    for (let round = 0; round < 60; round += 1) {
      nowMs += random() < 0.5 ? 150_000 : 5_000 * Math.round(random());
      for (let count = Math.floor(random() * 3); count > 0; count -= 1) happens();
      const answer = await parts.ask(async (readings) => {
        truths.splice(0, truths.length, model.truth());
        const reading = readings.get("attempts");
        if (reading !== undefined && reading.distinct.length > 0) known += 1;
        return model.count(reading, among);
      });
      expect(truths, `run ${run}, round ${round}`).toContain(answer);
    }
  }
  expect(known).toBeGreaterThan(3_000);
});
