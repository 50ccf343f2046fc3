import type { Attempt } from "../../src/domain/attempt.ts";
import type {
  AttemptView,
  DeliverySummary,
  EventFilter,
  FacetCounts,
} from "../../src/domain/event-query.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import type { FanoutRecord } from "../../src/domain/outcome.ts";

/** Computes the store's right answers the plain way, from lists; shares no code with the product. */
export class EventModel {
  readonly events: readonly EventRecord[];
  readonly attempts: readonly Attempt[];
  readonly fanouts: readonly FanoutRecord[];

  constructor(
    events: readonly EventRecord[],
    attempts: readonly Attempt[],
    fanouts: readonly FanoutRecord[],
  ) {
    this.events = events;
    this.attempts = attempts;
    this.fanouts = fanouts;
  }

  matching(orgId: string, filter: EventFilter): EventRecord[] {
    return this.events
      .filter((event) => event.orgId === orgId && this.#matches(event, filter))
      .sort((a, b) => b.receivedAtMs - a.receivedAtMs || (a.id < b.id ? 1 : -1));
  }

  facets(orgId: string, filter: EventFilter): FacetCounts {
    const events = this.matching(orgId, filter);
    const ids = new Set(events.map((event) => event.id));
    return {
      totalEvents: events.length,
      byProvider: tally(events.map((event) => event.provider)),
      bySignatureValid: tally(events.map((event) => event.signatureValid)),
      byAttemptStatus: tally(
        this.attempts.filter((attempt) => ids.has(attempt.eventId)).map(({ status }) => status),
      ),
    };
  }

  summary(eventId: string): DeliverySummary | null {
    const fanouts = this.fanouts.filter((fanout) => fanout.eventId === eventId);
    const attempts = this.attemptsOf(eventId);
    if (fanouts.length === 0 && attempts.length === 0) return null;
    const destinations = new Set([
      ...fanouts.flatMap((fanout) => fanout.destinationIds),
      ...attempts.map((attempt) => attempt.destinationId),
    ]);
    let delivered = 0;
    let failed = 0;
    for (const destination of destinations) {
      const last = attempts
        .filter((attempt) => attempt.destinationId === destination)
        .findLast((attempt) => attempt.status !== "rate_limited");
      if (last?.status === "delivered") delivered += 1;
      if (last?.status === "dead") failed += 1;
    }
    const total = destinations.size;
    return { delivered, failed, pending: total - delivered - failed, total };
  }

  numbered(eventId: string): Pick<AttemptView, "id" | "attemptNumber">[] {
    const rows = this.attemptsOf(eventId);
    return rows.map((row, index) => {
      const here = rows.filter(({ destinationId }) => destinationId === row.destinationId);
      const tries = here.filter(({ status }) => status !== "rate_limited");
      const ofRow = isDeferral(row)
        ? (rows.slice(index).find((other) => tries.includes(other) && isSameTry(other, row)) ??
          tries.findLast((other) => isSameTry(other, row)))
        : row;
      const attemptNumber =
        ofRow === undefined ? tries.length + waitingRank(here, row) : tries.indexOf(ofRow) + 1;
      return { id: row.id, attemptNumber };
    });
  }

  /** Within a run, tries follow on each other, whatever the clock said; runs follow on each other by the clock. */
  attemptsOf(eventId: string): Attempt[] {
    const ofEvent = this.attempts.filter((attempt) => attempt.eventId === eventId);
    const inRun = (a: Attempt, b: Attempt): number =>
      a.tryNumber - b.tryNumber ||
      a.deferral - b.deferral ||
      a.attemptedAtMs - b.attemptedAtMs ||
      (a.id < b.id ? -1 : 1);
    const notBeforeMs = (attempt: Attempt): number =>
      Math.max(
        ...ofEvent
          .filter(
            ({ run, destinationId }) =>
              run === attempt.run && destinationId === attempt.destinationId,
          )
          .filter((other) => other === attempt || inRun(other, attempt) < 0)
          .map(({ attemptedAtMs }) => attemptedAtMs),
      );
    return ofEvent.toSorted((a, b) => notBeforeMs(a) - notBeforeMs(b) || inRun(a, b));
  }

  #matches(event: EventRecord, filter: EventFilter): boolean {
    if (filter.endpointId !== undefined && event.endpointId !== filter.endpointId) return false;
    if (filter.provider !== undefined && event.provider !== filter.provider) return false;
    if (filter.signatureValid !== undefined && event.signatureValid !== filter.signatureValid)
      return false;
    if (filter.fromMs !== undefined && event.receivedAtMs < filter.fromMs) return false;
    if (filter.toMs !== undefined && event.receivedAtMs >= filter.toMs) return false;
    if (filter.q !== undefined && !containsAll(event, filter.q)) return false;
    if (filter.field !== undefined) {
      const { path, value } = filter.field;
      if (!leaves(event).some((leaf) => leaf.path === path && leaf.value === value)) return false;
    }
    if (filter.attemptStatus === undefined && filter.destinationId === undefined) return true;
    return this.attempts.some(
      (attempt) =>
        attempt.eventId === event.id &&
        (filter.attemptStatus === undefined || attempt.status === filter.attemptStatus) &&
        (filter.destinationId === undefined || attempt.destinationId === filter.destinationId),
    );
  }
}

const isDeferral = ({ status }: Attempt): boolean => status === "rate_limited";

type TryOfRun = Pick<Attempt, "run" | "tryNumber">;

const isSameTry = (one: TryOfRun, other: TryOfRun): boolean =>
  one.run === other.run && one.tryNumber === other.tryNumber;

/** Ranks the try that a deferral put off among a destination's tries still to be made; 1 is due first. */
function waitingRank(here: readonly Attempt[], deferral: Attempt): number {
  const announced = here
    .filter(({ nextRetryAtMs }) => nextRetryAtMs !== null)
    .map((row) => ({
      run: row.run,
      tryNumber: isDeferral(row) ? row.tryNumber : row.tryNumber + 1,
      dueAtMs: row.nextRetryAtMs!,
    }));
  const waiting = announced
    .filter((one) => !here.some((other) => !isDeferral(other) && isSameTry(other, one)))
    .filter((one, index, all) => all.findIndex((other) => isSameTry(other, one)) === index)
    .map((one) => announced.findLast((other) => isSameTry(other, one))!)
    .sort((a, b) => a.dueAtMs - b.dueAtMs);
  return waiting.findIndex((one) => isSameTry(one, deferral)) + 1;
}

/** Tells whether each term occurs in the payload or within one header line; bytes as characters, A–Z lowercased. */
function containsAll(event: EventRecord, q: string): boolean {
  const fold = (bytes: Uint8Array): string =>
    Buffer.from(bytes)
      .toString("latin1")
      .replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  const texts = [
    event.body,
    ...event.headers.map(([name, value]) => Buffer.from(`${name}: ${value}`)),
  ];
  return q
    .split(/\s/)
    .filter((term) => term !== "")
    .every((term) => texts.some((text) => fold(text).includes(fold(Buffer.from(term)))));
}

export interface Leaf {
  readonly path: string;
  readonly value: string;
}

/** Returns an event's leaves, with paths as a client writes them. */
export function leaves(event: EventRecord): Leaf[] {
  const found: Leaf[] = event.headers.map(([name, value]) => ({
    path: `headers.${name.toLowerCase()}`,
    value,
  }));
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(event.body);
  } catch {
    return found;
  }
  const add = (keys: readonly string[], value: string): void => {
    const path = keys.map((key) => key.replaceAll("\\", "\\\\").replaceAll(".", "\\.")).join(".");
    if (path !== "") found.push({ path: isShadowed(path) ? `payload.${path}` : path, value });
  };
  const isForm = event.contentType === "application/x-www-form-urlencoded";
  try {
    const walk = (node: unknown, keys: readonly string[]): void => {
      if (node !== null && typeof node === "object")
        for (const [key, child] of Object.entries(node)) walk(child, [...keys, key]);
      else if (keys.length > 0) add(keys, String(node));
    };
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== "object") throw new Error("no leaves");
    walk(parsed, []);
  } catch {
    // Not JSON: the fields of a form count; anything else is found only by headers and free text.
    if (isForm) for (const [name, value] of new URLSearchParams(text)) add([name], value);
  }
  return found;
}

function isShadowed(path: string): boolean {
  return /^(payload\.)*headers\../.test(path);
}

function tally<T>(values: readonly T[]): { value: T; count: number }[] {
  return [...new Set(values)]
    .map((value) => ({ value, count: values.filter((other) => other === value).length }))
    .sort((a, b) => b.count - a.count || (String(a.value) < String(b.value) ? -1 : 1));
}
