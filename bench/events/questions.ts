import type { EventFilter, EventQueries } from "../../src/domain/event-query.ts";
import { ASKED_ORG, endpointOf } from "./generate.ts";
import { COMMON_WORD, RARE_WORD, SELDOM_WORD } from "./payloads.ts";

export interface Question {
  readonly name: string;
  /** The p95 in ms that the issue and README promise at ten million events; null: reported only. */
  readonly targetMs: number | null;
  readonly ask: () => Promise<unknown>;
}

export interface Known {
  readonly eventIds: readonly string[];
  /** A leaf field that one event has. */
  readonly field: { readonly path: string; readonly value: string };
  readonly endMs: number;
}

/** Makes one question of every kind that the API asks, all about the organization with half of the events. */
export function makeQuestions(
  queries: EventQueries,
  store: { readonly page: (filter: EventFilter, offset: number) => Promise<unknown> },
  known: Known,
): readonly Question[] {
  const hour = lastHours(known.endMs, 1);
  const halfWeek = lastHours(known.endMs, 3.5 * 24);
  const page = { offset: 0, limit: 50 };
  let turn = 0;
  const someId = (): string => known.eventIds[(turn += 1) % known.eventIds.length]!;
  const list = (filter: EventFilter, withSummary = false) =>
    queries.list(ASKED_ORG, filter, page, withSummary);
  const facets = (filter: EventFilter) => queries.facets(ASKED_ORG, filter);
  const endpoint = { endpointId: endpointOf("asked", 1) };
  return [
    { name: "first page (rows)", targetMs: 50, ask: () => store.page({}, 0) },
    { name: "first page and total", targetMs: null, ask: () => list({}) },
    { name: "first page, total and summaries", targetMs: null, ask: () => list({}, true) },
    { name: "page at offset 100,000 (rows)", targetMs: 1_000, ask: () => store.page({}, 100_000) },
    { name: "facets", targetMs: 100, ask: () => facets({}) },
    { name: "facets of an endpoint", targetMs: 60, ask: () => facets(endpoint) },
    { name: "facets of a provider", targetMs: 60, ask: () => facets({ provider: "github" }) },
    { name: "facets of an hour", targetMs: 60, ask: () => facets(hour) },
    { name: "facets of half a week", targetMs: null, ask: () => facets(halfWeek) },
    { name: "facets of rejected ones", targetMs: 60, ask: () => facets({ signatureValid: false }) },
    {
      name: "what failed in the last hour",
      targetMs: null,
      ask: () => list({ ...hour, attemptStatus: "failed" }),
    },
    {
      name: "event by id, with attempts",
      targetMs: 15,
      ask: () => queries.detail(ASKED_ORG, someId()),
    },
    { name: "field and value", targetMs: 60, ask: () => list({ field: known.field }) },
    { name: "rare q and total", targetMs: 150, ask: () => list({ q: RARE_WORD }) },
    { name: "seldom q (rows)", targetMs: null, ask: () => store.page({ q: SELDOM_WORD }, 0) },
    { name: "common q (rows)", targetMs: 200, ask: () => store.page({ q: COMMON_WORD }, 0) },
    {
      name: "common q in an hour and total",
      targetMs: null,
      ask: () => list({ ...hour, q: COMMON_WORD }),
    },
    { name: "common q facets", targetMs: null, ask: () => facets({ q: COMMON_WORD }) },
  ];
}

/** Makes totals and facets of free-text searches with ever more matches: from some ten thousand events to the whole organization. */
export function makeSearches(queries: EventQueries, endMs: number): readonly Question[] {
  const last = (hours: number) => lastHours(endMs, hours);
  const searches: readonly (readonly [name: string, filter: EventFilter])[] = [
    ["seldom q", { q: SELDOM_WORD }],
    ["common q, an hour", { q: COMMON_WORD, ...last(1) }],
    ["common q, ten hours", { q: COMMON_WORD, ...last(10) }],
    ["common q, two days", { q: COMMON_WORD, ...last(48) }],
    ["common q, four days", { q: COMMON_WORD, ...last(96) }],
    ["common q, all days", { q: COMMON_WORD }],
    ["q that all have, an hour", { q: "e", ...last(1) }],
    ["q that all have, five hours", { q: "e", ...last(5) }],
    ["q that all have, two days", { q: "e", ...last(48) }],
    ["q that all have, all days", { q: "e" }],
  ];
  const page = { offset: 0, limit: 50 };
  return searches.flatMap(([name, filter]) => [
    {
      name: `${name}: total`,
      targetMs: null,
      ask: () => queries.list(ASKED_ORG, filter, page, false),
    },
    { name: `${name}: facets`, targetMs: null, ask: () => queries.facets(ASKED_ORG, filter) },
  ]);
}

function lastHours(endMs: number, hours: number): Pick<EventFilter, "fromMs" | "toMs"> {
  return { fromMs: endMs - hours * 3_600_000, toMs: endMs };
}
