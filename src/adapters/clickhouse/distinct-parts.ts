import { groupBy } from "../../domain/group-by.ts";
import { isOfSameLife, type Part } from "./parts.ts";
import { MAX_NAMED, readingOf, stillHolds, type Reading } from "./reading.ts";

/** By table; one that is missing is read without any knowledge of its parts. */
export type Readings = ReadonlyMap<Part["table"], Reading>;

export interface DistinctPartsPorts {
  /** All parts, the largest first; null if this user may not see them. */
  readonly list: () => Promise<readonly Part[] | null>;
  /** Whether all of these parts exist and none of their rows from `fromMs` on is stored twice. */
  readonly areDistinct: (
    table: Part["table"],
    parts: readonly string[],
    fromMs: number,
  ) => Promise<boolean>;
  /** Ms; only differences mean anything. */
  readonly monotonic: () => number;
}

/** What is known of a day: its parts up to `lastBlock` are distinct, and so is whatever they are merged into. */
type Knowledge = Pick<Part, "lastBlock" | "storedIn" | "startedS">;

const NOTHING: Readings = new Map();
const ROUNDS = 3;
/** A list of parts older than this is fetched again before it is used. */
const LIST_KEEPS_MS = 1_000;
/** A day whose parts have not changed for this long is not being written to. */
const RESTLESS_MS = 60_000;
/** The rest after a check, as a multiple of the time it took; it doubles with each check in a row that was in vain. */
const REST = 10;
const MAX_DOUBLINGS = 6;

/**
 * Counting is slow because rows stored twice must count once. So after a question has been answered, a check in the background finds
 * out which parts are distinct, that is, hold no row that is stored twice; later questions count those without looking for duplicates.
 * Each check covers what came since the last one. Answers stay exact while parts come, go and are merged: an answer counts only if
 * what it relied on still holds when it arrives.
 */
export class DistinctParts {
  readonly #ports: DistinctPartsPorts;
  /** Keyed by table and day. */
  readonly #known = new Map<string, Knowledge>();
  readonly #changedAtMs = new Map<string, number>();
  #listed: { readonly parts: readonly Part[]; readonly atMs: number } | null = null;
  #checking: Promise<void> | null = null;
  #restsUntilMs = -Infinity;
  #doublings = 0;

  constructor(ports: DistinctPartsPorts) {
    this.#ports = ports;
  }

  /** Asks with what is known of the parts; asks again if that did not hold until the answer came, and finally without it. */
  async ask<T>(question: (readings: Readings) => Promise<T>): Promise<T> {
    let before = this.#recentParts() ?? (await this.#list());
    for (let round = 1; round <= ROUNDS && before !== null; round += 1) {
      const readings = this.#readings(before);
      const answer = await question(readings);
      const after = await this.#list();
      if (after === null) break;
      this.#checkBehind(after);
      if (hold(readings, before, after)) return answer;
      before = after;
    }
    return question(NOTHING);
  }

  /** Resolves when no check is under way. */
  async checked(): Promise<void> {
    await this.#checking;
  }

  #recentParts(): readonly Part[] | null {
    if (this.#listed === null) return null;
    return this.#ports.monotonic() - this.#listed.atMs < LIST_KEEPS_MS ? this.#listed.parts : null;
  }

  async #list(): Promise<readonly Part[] | null> {
    const atMs = this.#ports.monotonic();
    const parts = await this.#ports.list();
    if (parts !== null && this.#listed !== null) this.#noteChanges(this.#listed.parts, parts, atMs);
    this.#listed = parts === null ? null : { parts, atMs };
    return parts;
  }

  #noteChanges(before: readonly Part[], after: readonly Part[], atMs: number): void {
    const former = new Set(before.map(nameOf));
    for (const part of after)
      if (!former.has(nameOf(part))) this.#changedAtMs.set(dayOf(part), atMs);
  }

  #isRestless(part: Part): boolean {
    const changedAtMs = this.#changedAtMs.get(dayOf(part)) ?? -Infinity;
    return this.#ports.monotonic() - changedAtMs < RESTLESS_MS;
  }

  #readings(parts: readonly Part[]): Readings {
    const days = groupBy(parts, dayOf);
    for (const former of [this.#known, this.#changedAtMs])
      for (const day of former.keys()) if (!days.has(day)) former.delete(day);
    for (const [only, other] of days.values())
      if (only!.isCollapsed && other === undefined) this.#learn([only!]);
    const readings = new Map<Part["table"], Reading>();
    for (const [table, own] of groupBy(parts, (part) => part.table))
      readings.set(
        table,
        readingOf(
          own,
          (part) => this.#isKnown(part),
          (part) => this.#isRestless(part),
        ),
      );
    return readings;
  }

  #isKnown(part: Part): boolean {
    const known = this.#known.get(dayOf(part));
    return known !== undefined && isOfSameLife(part, known) && part.lastBlock <= known.lastBlock;
  }

  /** @param parts all parts of one day at one moment: blocks that become visible later have higher numbers */
  #learn(parts: readonly Part[]): void {
    const latest = parts.reduce((one, other) => (one.lastBlock > other.lastBlock ? one : other));
    this.#known.set(dayOf(latest), latest);
  }

  #checkBehind(parts: readonly Part[]): void {
    if (this.#checking !== null || this.#ports.monotonic() < this.#restsUntilMs) return;
    const days = [...groupBy(parts, dayOf).values()].filter(
      (own) => own.length <= MAX_NAMED && !own.every((part) => this.#isKnown(part)),
    );
    if (days.length === 0) return;
    this.#checking = this.#check(days).finally(() => {
      this.#checking = null;
    });
  }

  async #check(days: readonly (readonly Part[])[]): Promise<void> {
    const startedAtMs = this.#ports.monotonic();
    let inVain = false;
    for (const parts of days) {
      const fromMs = Math.min(
        ...parts.filter((part) => !this.#isKnown(part)).map((part) => part.fromMs),
      );
      const names = parts.filter((part) => part.untilMs > fromMs).map((part) => part.name);
      // Refused or over the time limit: as good as not known.
      const { table } = parts[0]!;
      if (await this.#ports.areDistinct(table, names, fromMs).catch(() => false))
        this.#learn(parts);
      else inVain = true;
    }
    this.#doublings = inVain ? Math.min(MAX_DOUBLINGS, this.#doublings + 1) : 0;
    const endedAtMs = this.#ports.monotonic();
    this.#restsUntilMs = endedAtMs + (endedAtMs - startedAtMs) * REST * 2 ** this.#doublings;
  }
}

function hold(readings: Readings, before: readonly Part[], after: readonly Part[]): boolean {
  const former = groupBy(before, (part) => part.table);
  const present = groupBy(after, (part) => part.table);
  return [...readings].every(([table, reading]) =>
    stillHolds(reading, former.get(table) ?? [], present.get(table) ?? []),
  );
}

function dayOf({ table, day }: Part): string {
  return `${table} ${day}`;
}

function nameOf({ table, name }: Part): string {
  return `${table} ${name}`;
}
