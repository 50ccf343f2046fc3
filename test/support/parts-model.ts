import type { Part } from "../../src/adapters/clickhouse/parts.ts";
import type { Reading } from "../../src/adapters/clickhouse/reading.ts";

export interface ModelRow {
  readonly key: string;
  readonly timeMs: number;
  readonly value: string;
}
interface ModelPart extends Part {
  readonly firstBlock: number;
  readonly level: number;
  /** Rows in order of insertion: the last one of each key counts. */
  readonly rows: readonly ModelRow[];
}

export const DAY_MS = 86_400_000;
const NOTHING: Reading = {
  distinct: [],
  times: new Map(),
  early: [],
  spans: [],
  openFrom: new Map(),
  isComplete: false,
};

/** A table as ClickHouse keeps it: a part for each day of an insert, now and then merged with its neighbours. */
export class PartsModel {
  readonly table: Part["table"];
  startedS = 1_000;
  #parts: readonly ModelPart[] = [];
  #block = 0;

  constructor(table: Part["table"]) {
    this.table = table;
  }

  insert(rows: readonly ModelRow[]): void {
    this.#block += 1;
    for (const day of new Set(rows.map(dayOf)))
      this.#add(
        day,
        [this.#block, this.#block],
        rows.filter((row) => dayOf(row) === day),
      );
  }

  /** Merges `count` consecutive parts of the day, from index `at` on. */
  merge(day: string, at: number, count: number): void {
    const own = this.#parts
      .filter((part) => part.day === day)
      .toSorted((a, b) => a.firstBlock - b.firstBlock)
      .slice(at, at + count);
    if (own.length === 0) return;
    this.#parts = this.#parts.filter((part) => !own.includes(part));
    this.#add(
      day,
      [own[0]!.firstBlock, own.at(-1)!.lastBlock],
      own.flatMap(({ rows }) => rows),
      Math.max(...own.map(({ level }) => level)) + 1,
    );
  }

  drop(day: string): void {
    this.#parts = this.#parts.filter((part) => part.day !== day);
  }

  /** Restarts the server after it lost its newest part, whose block number will be reused. */
  restart(): void {
    this.startedS += 10;
    this.#parts = this.#inOrder().slice(0, -1);
    this.#block = Math.max(0, ...this.#parts.map(({ lastBlock }) => lastBlock));
  }

  days(): readonly string[] {
    return [...new Set(this.#parts.map(({ day }) => day))];
  }

  rows(): readonly ModelRow[] {
    return this.#inOrder().flatMap(({ rows }) => rows);
  }

  list(): readonly Part[] {
    return this.#parts
      .toSorted((a, b) => b.rows.length - a.rows.length)
      .map((part) => Object.assign({}, part, { startedS: this.startedS }));
  }

  /** Reads what a count's statement reads, piece by piece; the store may change in `among`, called between them. */
  async count(reading: Reading = NOTHING, among: () => Promise<void>): Promise<string> {
    const isIn = ({ timeMs }: ModelRow): boolean =>
      reading.spans.some(({ fromMs, untilMs }) => timeMs >= fromMs && timeMs < untilMs);
    const whole = this.#of(reading.distinct).flatMap(({ rows }) => rows);
    await among();
    const early = this.#of(reading.early).flatMap(({ rows }) => rows.filter(isIn));
    await among();
    const others = this.#inOrder()
      .filter(({ name }) => !reading.distinct.includes(name))
      .flatMap(({ rows }) => rows.filter((row) => !isIn(row)));
    return sum([...whole, ...early, ...(reading.isComplete ? [] : lastOfEach(others))]);
  }

  /** Returns the right count: every key once, with its last value. */
  truth(): string {
    return sum(lastOfEach(this.rows()));
  }

  areDistinct(names: readonly string[], fromMs: number): boolean {
    const parts = this.#of(names);
    const late = parts
      .map((part) => part.rows.filter(({ timeMs }) => timeMs >= fromMs))
      .filter((rows) => rows.length > 0);
    const rows = late.flat();
    return late.length === names.length && lastOfEach(rows).length === rows.length;
  }

  #inOrder(): readonly ModelPart[] {
    return this.#parts.toSorted((a, b) => a.firstBlock - b.firstBlock);
  }

  #of(names: readonly string[]): readonly ModelPart[] {
    return this.#inOrder().filter(({ name }) => names.includes(name));
  }

  #add(
    day: string,
    [firstBlock, lastBlock]: readonly [number, number],
    rows: readonly ModelRow[],
    level = 0,
  ): void {
    const distinct = lastOfEach(rows);
    const times = distinct.map(({ timeMs }) => timeMs);
    const part: ModelPart = {
      table: this.table,
      day,
      name: `${day}_${firstBlock}_${lastBlock}_${level}`,
      firstBlock,
      lastBlock,
      level,
      isCollapsed: level > 0,
      rows: distinct,
      fromMs: Math.floor(Math.min(...times) / 1_000) * 1_000,
      untilMs: Math.floor(Math.max(...times) / 1_000) * 1_000 + 1_000,
      storedIn: "store",
      startedS: this.startedS,
    };
    this.#parts = [...this.#parts, part];
  }
}

function dayOf({ timeMs }: ModelRow): string {
  return `day${Math.floor(timeMs / DAY_MS)}`;
}

function lastOfEach(rows: readonly ModelRow[]): ModelRow[] {
  return [...new Map(rows.map((row) => [row.key, row])).values()];
}

/** Returns the counts by value as one text. */
function sum(rows: readonly ModelRow[]): string {
  const counts = new Map<string, number>();
  for (const { value } of rows) counts.set(value, (counts.get(value) ?? 0) + 1);
  return JSON.stringify([...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
