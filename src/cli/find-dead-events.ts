import type { DeliverySummary } from "../domain/event-query.ts";

/** From `fromMs` up to but not including `untilMs`, in ms since the epoch. */
export interface TimeSpan {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** An event with a dead delivery. */
export interface DeadEvent {
  readonly id: string;
  readonly receivedAtMs: number;
  /** What became of it at all of its destinations; null while that is not known. */
  readonly summary: DeliverySummary | null;
}

/** Some of the events that match within a span, newest first. */
interface FoundPage {
  readonly events: readonly DeadEvent[];
  /** Number of all that match. */
  readonly total: number;
  readonly hasNext: boolean;
}

/** @param page from 1 */
export type SearchEvents = (span: TimeSpan, page: number) => Promise<FoundPage>;

/** A span of at most this many events is read page by page. */
const FEW_EVENTS = 500;
/** A shorter span is not divided, however many events it has. */
const SHORT_SPAN_MS = 1_000;

/**
 * Finds all events that match within a span and yields them part by part, oldest first, each event once. Every page makes the store
 * search the whole span anew, so a span of many events is halved until each part has few: 200,000 would otherwise be searched for 2,000
 * times. A part is searched only when it is wanted, so what is known of its events is fresh.
 */
export async function* findDeadEvents(
  search: SearchEvents,
  span: TimeSpan,
): AsyncGenerator<readonly DeadEvent[], void> {
  const first = await search(span, 1);
  if (first.hasNext) yield* divide(search, span, first.total);
  else yield first.events.toReversed();
}

/** @param expected how many events the span has, or nearly so: earlier ones may have died since they were counted */
async function* divide(
  search: SearchEvents,
  span: TimeSpan,
  expected: number,
): AsyncGenerator<readonly DeadEvent[], void> {
  const { fromMs, untilMs } = span;
  if (expected <= FEW_EVENTS || untilMs - fromMs <= SHORT_SPAN_MS) {
    yield await readAll(search, span);
    return;
  }
  const middleMs = Math.floor((fromMs + untilMs) / 2);
  const older = { fromMs, untilMs: middleMs };
  const { total } = await search(older, 1);
  if (total > 0) yield* divide(search, older, total);
  yield* divide(search, { fromMs: middleMs, untilMs }, expected - total);
}

/**
 * Reads a span page by page. Events that die meanwhile shift those behind them, so a page may begin with what the last ended with.
 * @returns oldest first
 */
async function readAll(search: SearchEvents, span: TimeSpan): Promise<readonly DeadEvent[]> {
  const found = new Map<string, DeadEvent>();
  for (let page = 1; ; page += 1) {
    const { events, hasNext } = await search(span, page);
    for (const event of events) if (!found.has(event.id)) found.set(event.id, event);
    if (!hasNext) return [...found.values()].reverse();
  }
}
