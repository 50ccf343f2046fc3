import type { AttemptStatus, Provider } from "../../domain/enums.ts";
import type { EventListItem } from "../../domain/event-query.ts";
import type { EventRecord } from "../../domain/event.ts";
import type { EventKey, EventOutcomes, StoredAttempt } from "../../domain/event-store.ts";
import { visitInTurns } from "../../domain/next-turn.ts";
import { fromHeaderText } from "./header-text.ts";
import { ATTEMPT_DETAILS, EVENT_DETAILS, isFanoutId } from "./schema.ts";

/** Rows as ClickHouse writes them in JSONEachRow. */
export interface ItemJson {
  readonly id: string;
  readonly org_id: string;
  readonly endpoint_id: string;
  readonly provider: Provider;
  readonly received_at_ms: number;
  readonly signature_valid: boolean;
  readonly verification_error: string | null;
  readonly payload_size: number;
}

/** An event without the columns that its key gives. */
export interface EventJson {
  readonly details: DetailsJson;
  readonly headers: string;
  readonly payload_base64: string;
}

/** An attempt, or a fan-out, whose `details` are the ids of its destinations. */
export interface OutcomeJson {
  readonly id: string;
  readonly details: DetailsJson;
  readonly response_body: string;
}

/** Texts in the order of `EVENT_DETAILS` and `ATTEMPT_DETAILS`. */
type DetailsJson = readonly (string | null)[];

export function toItem(row: ItemJson): EventListItem {
  return {
    id: row.id,
    endpointId: row.endpoint_id,
    orgId: row.org_id,
    provider: row.provider,
    receivedAtMs: row.received_at_ms,
    signatureValid: row.signature_valid,
    verificationError: row.verification_error,
    payloadSizeBytes: row.payload_size,
  };
}

export function toEvent(row: EventJson, orgId: string, key: EventKey): EventRecord {
  const details = readEventDetails(row.details);
  return {
    id: key.id,
    orgId,
    receivedAtMs: key.receivedAtMs,
    endpointId: details.text("endpoint_id"),
    provider: details.text("provider") as Provider,
    signatureValid: details.bool("signature_valid"),
    verificationError: details.nullable("verification_error"),
    payloadSizeBytes: details.number("payload_size"),
    method: details.text("method"),
    path: details.text("path"),
    query: details.text("query"),
    headers: fromHeaderText(row.headers),
    contentType: details.nullable("content_type"),
    sourceIp: details.text("source_ip"),
    reason: details.text("reason"),
    bodyStored: details.bool("body_stored"),
    body: Buffer.from(row.payload_base64, "base64"),
  };
}

export async function toOutcomes(
  rows: readonly OutcomeJson[],
  orgId: string,
  key: EventKey,
): Promise<EventOutcomes> {
  const fanouts = rows.filter(({ id }) => isFanoutId(id));
  const attempts = rows.filter(({ id }) => !isFanoutId(id));
  const destinationIds = new Set(fanouts.flatMap(({ details }) => details.map((id) => id!)));
  return {
    attempts: await toAttempts(attempts, orgId, key),
    destinationIds: fanouts.length === 0 ? null : [...destinationIds],
  };
}

/** Sorts the oldest first, in the same order as `position` in the summaries' statement. */
async function toAttempts(
  rows: readonly OutcomeJson[],
  orgId: string,
  key: EventKey,
): Promise<readonly StoredAttempt[]> {
  const placed: PlacedAttempt[] = [];
  await visitInTurns(rows, (row) => {
    const details = readAttemptDetails(row.details);
    const attempt = toAttempt(row, details, orgId, key);
    const deferral = details.number("deferral");
    placed.push({ deferral, attempt, placeMs: attempt.attemptedAtMs });
  });
  placeWithinRuns(placed);
  return placed
    .sort((one, other) => one.placeMs - other.placeMs || inOrderOfTries(one, other))
    .map(({ attempt }) => attempt);
}

interface PlacedAttempt {
  readonly deferral: number;
  readonly attempt: StoredAttempt;
  /** The latest time of its run up to here: the clock may have been set back between two tries. */
  placeMs: number;
}

function placeWithinRuns(attempts: PlacedAttempt[]): void {
  const latestMs = new Map<string, number>();
  for (const placed of attempts.sort(inOrderOfTries)) {
    const { destinationId, run } = placed.attempt;
    const ofRun = `${destinationId}|${run}`;
    placed.placeMs = Math.max(placed.placeMs, latestMs.get(ofRun) ?? 0);
    latestMs.set(ofRun, placed.placeMs);
  }
}

function inOrderOfTries(one: PlacedAttempt, other: PlacedAttempt): number {
  const [a, b] = [one.attempt, other.attempt];
  return (
    a.tryNumber - b.tryNumber ||
    one.deferral - other.deferral ||
    a.attemptedAtMs - b.attemptedAtMs ||
    (a.id < b.id ? -1 : 1)
  );
}

function toAttempt(
  row: OutcomeJson,
  details: DetailsReader<keyof typeof ATTEMPT_DETAILS>,
  orgId: string,
  key: EventKey,
): StoredAttempt {
  const nextRetryAt = details.nullable("next_retry_at_ms");
  return {
    id: row.id,
    eventId: key.id,
    destinationId: details.text("destination_id"),
    endpointId: details.text("endpoint_id"),
    orgId,
    run: details.text("run"),
    tryNumber: details.number("try_number"),
    attemptedAtMs: details.number("attempted_at_ms"),
    receiverUrl: details.text("receiver_url"),
    httpStatus: details.number("http_status"),
    responseBody: row.response_body,
    latencyMs: details.number("latency_ms"),
    status: details.text("status") as AttemptStatus,
    nextRetryAtMs: nextRetryAt === null ? null : Number(nextRetryAt),
  };
}

interface DetailsReader<Name extends string> {
  nullable(name: Name): string | null;
  text(name: Name): string;
  number(name: Name): number;
  bool(name: Name): boolean;
}

/** Makes a reader of details by name. @throws {RangeError} from it, for a required one that is missing */
function makeDetailsReader<Name extends string>(
  names: Readonly<Record<Name, string>>,
): (values: DetailsJson) => DetailsReader<Name> {
  const order = Object.keys(names);
  return (values) => {
    const nullable = (name: Name): string | null => values[order.indexOf(name)] ?? null;
    const text = (name: Name): string => {
      const value = nullable(name);
      if (value === null) throw new RangeError(`the event store gave no ${name}`);
      return value;
    };
    return {
      nullable,
      text,
      number: (name) => Number(text(name)),
      bool: (name) => text(name) === "true",
    };
  };
}

const readEventDetails = makeDetailsReader(EVENT_DETAILS);
const readAttemptDetails = makeDetailsReader(ATTEMPT_DETAILS);
