import type { PageRange } from "../../domain/event-query.ts";
import {
  isSearch,
  type EventPage,
  type EventStoreReader,
  type StoreFilter,
} from "../../domain/event-store.ts";
import { followSignal } from "../../domain/follow-signal.ts";
import type { QueryParameters, QuerySettings } from "./ask.ts";
import { endOfAsked, lengthOfAsked } from "./asked-time.ts";
import { eventCondition, type Condition } from "./filter-sql.ts";
import { SELECT_MINUTE, SELECT_PAGE } from "./query-sql.ts";
import { toItem, type ItemJson } from "./rows.ts";

export interface PagePorts {
  readonly select: <Row>(
    query: string,
    parameters: QueryParameters,
    settings: QuerySettings,
    signal?: AbortSignal,
  ) => Promise<Row[]>;
  readonly count: EventStoreReader["count"];
  /** ms since the epoch */
  readonly now: () => number;
  /** From this offset on, the minute in which the page begins is found first. */
  readonly deepOffset?: number;
}

interface MinuteJson {
  readonly end_ms: number;
  readonly newer: number;
}
type PageJson = ItemJson & { readonly read: number };

/** Rows read beyond the page: up to this many equal neighbours cost no second query. */
const SPARE_ROWS = 64;
/** How far back a search looks through the newest events without indexes, while it asks the indexes for all events. */
const NEWEST_MS = 5 * 60_000;
/** Time limit for that; an organization may have more events than this is enough for, and they are then left to the indexes. */
const NEWEST_SECONDS = 0.2;
/** A search over less time than this reads few indexes. */
const LONG_SEARCH_MS = 24 * 3_600_000;
/** Pages that end beyond this many events are not looked for among the newest. */
const MAX_WANTED = 1_000;
/** Counting five million events by minute takes 60 ms, reading past a hundred thousand takes 150. */
const DEEP_OFFSET = 50_000;

/**
 * Makes the reader of a page of events, newest first. A search over a long time asks the indexes for all events and, at the same time,
 * looks through the newest ones without them; the first full page wins. A text that many events contain fills the page from the newest
 * ones in 16 ms (in an organization of five million events), while the indexes, which then rule out almost nothing, take 250 ms.
 */
export function makePage({
  select,
  count,
  now,
  deepOffset = DEEP_OFFSET,
}: PagePorts): EventStoreReader["page"] {
  const read = (
    { sql, parameters }: Condition,
    range: PageRange,
    maxRead: number,
    settings: QuerySettings,
    signal?: AbortSignal,
  ): Promise<PageJson[]> =>
    select<PageJson>(
      SELECT_PAGE.replace("%WHERE%", () => sql),
      { ...parameters, ...range, most_read: maxRead },
      { optimize_move_to_prewhere_if_final: 1, ...settings },
      signal,
    );

  const ofAll = async (
    orgId: string,
    filter: StoreFilter,
    range: PageRange,
    signal?: AbortSignal,
  ): Promise<EventPage> => {
    const condition = eventCondition(orgId, filter);
    for (let maxRead = range.offset + range.limit + SPARE_ROWS; ; maxRead *= 2) {
      const rows = await read(condition, range, maxRead, {}, signal);
      const items = rows.map(toItem);
      if (rows.length === range.limit) return { items, total: null };
      if (rows[0] === undefined) {
        // An empty page may lie beyond the end, or be empty only because of equal rows before it.
        const total = range.offset === 0 ? 0 : await count(orgId, filter, signal);
        if (total <= range.offset) return { items, total };
      } else if (rows[0].read < maxRead) return { items, total: range.offset + rows.length };
    }
  };

  /** Only counts what precedes the page's minute: reading past it took seconds and hundreds of megabytes for the last page of millions. */
  const ofDeep = async (
    orgId: string,
    filter: StoreFilter,
    { offset, limit }: PageRange,
    signal?: AbortSignal,
  ): Promise<EventPage> => {
    const { sql, parameters } = eventCondition(orgId, filter);
    const [minute] = await select<MinuteJson>(
      SELECT_MINUTE.replace("%WHERE%", () => sql),
      { ...parameters, offset },
      { optimize_move_to_prewhere_if_final: 1 },
      signal,
    );
    if (minute === undefined) return { items: [], total: 0 };
    const { newer, end_ms: endMs } = minute;
    const rest = { ...filter, toMs: Math.min(endMs, filter.toMs ?? Infinity) };
    const { items, total } = await ofAll(orgId, rest, { offset: offset - newer, limit }, signal);
    return { items, total: total === null ? null : newer + total };
  };

  /** Returns null unless the newest events fill the page. */
  const ofNewest = async (
    orgId: string,
    filter: StoreFilter,
    range: PageRange,
    signal: AbortSignal,
  ): Promise<EventPage | null> => {
    const fromMs = endOfAsked(filter, now()) - NEWEST_MS;
    const condition = eventCondition(orgId, { ...filter, fromMs });
    const maxRead = range.offset + range.limit + SPARE_ROWS;
    const settings = { use_skip_indexes: 0, max_execution_time: NEWEST_SECONDS };
    const rows = await read(condition, range, maxRead, settings, signal);
    return rows.length === range.limit ? { items: rows.map(toItem), total: null } : null;
  };

  const isLongSearch = (filter: StoreFilter, { offset, limit }: PageRange): boolean =>
    filter.terms.length > 0 &&
    offset + limit <= MAX_WANTED &&
    lengthOfAsked(filter, now()) > LONG_SEARCH_MS;

  return async (orgId, filter, range, signal) => {
    // Counting the matches of a search would look at all events, even those after the page.
    if (range.offset >= deepOffset && !isSearch(filter))
      return ofDeep(orgId, filter, range, signal);
    if (!isLongSearch(filter, range)) return ofAll(orgId, filter, range, signal);
    const { follower: answered, unfollow } = followSignal(signal);
    const all = ofAll(orgId, filter, range, answered.signal);
    const newest = ofNewest(orgId, filter, range, answered.signal).catch(() => null);
    try {
      return await Promise.race([all, newest.then((page) => page ?? all)]);
    } finally {
      unfollow();
      answered.abort();
    }
  };
}
