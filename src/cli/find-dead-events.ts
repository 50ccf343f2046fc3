/** Times in ms since the epoch: the first is within, the last is not. */
export interface TimeSpan {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Some of the events that match within a span, newest first. */
export interface FoundPage {
  readonly ids: readonly string[];
  /** Number of all that match. */
  readonly total: number;
  readonly hasNext: boolean;
}

/** @param page from 1 */
export type SearchEvents = (span: TimeSpan, page: number) => Promise<FoundPage>;

/** So many are read page by page. */
const FEW_EVENTS = 500;
/** A shorter span is not divided, however many events it has. */
const SHORT_SPAN_MS = 1_000;

/**
 * Returns the ids of all events that match within a span, oldest first, each once. Each page makes the store look for all of the
 * span's events anew, so a span of many is halved until each part has few: 200,000 would otherwise be looked for 2,000 times.
 */
export async function findDeadEvents(search: SearchEvents, span: TimeSpan): Promise<string[]> {
  const first = await search(span, 1);
  if (!first.hasNext) return first.ids.toReversed();
  const ids = new Set<string>();
  await collect(search, span, first.total, ids);
  return [...ids];
}

/** @param expected how many events the span has, or nearly so: earlier ones may have died since they were counted */
async function collect(
  search: SearchEvents,
  span: TimeSpan,
  expected: number,
  ids: Set<string>,
): Promise<void> {
  const { fromMs, untilMs } = span;
  if (expected <= FEW_EVENTS || untilMs - fromMs <= SHORT_SPAN_MS) {
    for (const id of (await readAll(search, span)).reverse()) ids.add(id);
    return;
  }
  const middleMs = Math.floor((fromMs + untilMs) / 2);
  const older = { fromMs, untilMs: middleMs };
  const { total } = await search(older, 1);
  if (total > 0) await collect(search, older, total, ids);
  await collect(search, { fromMs: middleMs, untilMs }, expected - total, ids);
}

/** Reads a span page by page. Events that die meanwhile shift those behind them, so a page may begin with what the last ended with. */
async function readAll(search: SearchEvents, span: TimeSpan): Promise<string[]> {
  const ids: string[] = [];
  for (let page = 1; ; page += 1) {
    const found = await search(span, page);
    ids.push(...found.ids);
    if (!found.hasNext) return ids;
  }
}
