import { isOfSameLife, type Part } from "./parts.ts";

/** From `fromMs` up to but not including `untilMs`, in ms since the epoch. */
export interface TimeSpan {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * How a table is counted when some of its parts are known to be distinct, which means that no row is in two of them. Equal rows
 * have equal times, so a day's unknown parts can only repeat rows from their own earliest one on.
 *
 * ```text
 *   distinct  ├──────────┤├───────────┤
 *   early                               ├─────────┊──┤
 *   unknown                                       ├──────┤
 *                                                 openFrom
 * ```
 */
export interface Reading {
  /** Whole parts that share no row with another one. */
  readonly distinct: readonly string[];
  /** The times of each part's rows, by the part's name. */
  readonly times: ReadonlyMap<string, TimeSpan>;
  /** Parts that are distinct only as far as their rows lie within `spans`. */
  readonly early: readonly string[];
  readonly spans: readonly TimeSpan[];
  /** For each day with rows that are not taken for known: the time from which on rows may be there twice. */
  readonly openFrom: ReadonlyMap<string, number>;
  /** Whether all parts are in `distinct`. */
  readonly isComplete: boolean;
}

/** Names of this many parts fit into a request; further ones, the smallest, are read as if nothing were known of them. */
export const MAX_NAMED = 300;

/**
 * How much of a day that is being written to, its newest rows, is read as if nothing were known of them: parts that come meanwhile,
 * and merges of the newest ones, then mostly leave intact what was relied on.
 */
const TAIL_MS = 60_000;

/**
 * @param parts of one table, the largest first
 * @param isRestless whether any parts of the same day have changed lately
 */
export function readingOf(
  parts: readonly Part[],
  isKnown: (part: Part) => boolean,
  isRestless: (part: Part) => boolean,
): Reading {
  const known = new Set(parts.filter(isKnown).slice(0, MAX_NAMED));
  const openFrom = tailsOf(parts, isRestless);
  for (const part of parts)
    if (!known.has(part))
      openFrom.set(part.day, Math.min(part.fromMs, openFrom.get(part.day) ?? Infinity));
  const distinct: string[] = [];
  const early: string[] = [];
  const spans = new Map<string, TimeSpan>();
  for (const part of known) {
    const untilMs = openFrom.get(part.day);
    if (untilMs === undefined || part.untilMs <= untilMs) distinct.push(part.name);
    else if (part.fromMs < untilMs) {
      early.push(part.name);
      const fromMs = Math.min(part.fromMs, spans.get(part.day)?.fromMs ?? Infinity);
      spans.set(part.day, { fromMs, untilMs });
    }
  }
  const isComplete = distinct.length === parts.length;
  const times = new Map(parts.map((part) => [part.name, part]));
  return { distinct, times, early, spans: [...spans.values()], openFrom, isComplete };
}

function tailsOf(parts: readonly Part[], isRestless: (part: Part) => boolean): Map<string, number> {
  const tails = new Map<string, number>();
  for (const part of parts)
    if (isRestless(part)) {
      const { day, untilMs } = part;
      tails.set(day, Math.max(untilMs - TAIL_MS, tails.get(day) ?? -Infinity));
    }
  return tails;
}

/**
 * Returns whether a count by this reading is exact if the parts were `before` when it began and `after` when it had ended. A part that
 * came meanwhile may only lie where nothing was taken for known.
 */
export function stillHolds(
  { distinct, early, openFrom, isComplete }: Reading,
  before: readonly Part[],
  after: readonly Part[],
): boolean {
  if (before[0] !== undefined && after.some((part) => !isOfSameLife(part, before[0]!)))
    return false;
  const there = new Set(after.map(({ name }) => name));
  if (![...distinct, ...early].every((name) => there.has(name))) return false;
  const former = new Set(before.map(({ name }) => name));
  const days = new Set(before.map(({ day }) => day));
  const isHarmless = ({ day, fromMs }: Part): boolean =>
    !isComplete && (!days.has(day) || fromMs >= (openFrom.get(day) ?? Infinity));
  return after.every((part) => former.has(part.name) || isHarmless(part));
}
