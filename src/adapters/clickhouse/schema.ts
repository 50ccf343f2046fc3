/**
 * The tables. `events` is read by organization and time; `received_at` is the time inside the id, so an id alone
 * finds its row by the primary key. `attempts` carries what facets filter by, so that they need no join, and fan-outs as well:
 * all outcomes of an event are read from one table, since a second one costs a quarter of what an event by its id takes ("Questions
 * to ten million events" in bench/what-was-tried.md).
 *
 * The same row may be stored twice (redelivery after a crash): rows with equal keys collapse when parts are
 * merged, and queries either read FINAL or drop equal neighbours.
 */
export interface SchemaOptions {
  readonly retentionDays: number;
  /** Name of a ClickHouse cluster, which has replicated tables behind Distributed ones. */
  readonly cluster?: string | undefined;
}

export interface SkipIndex {
  readonly name: string;
  readonly definition: string;
}

export interface Table {
  readonly name: string;
  readonly columns: string;
  readonly indexes: string;
  readonly orderBy: string;
  readonly day: string;
  readonly shardBy: string;
  readonly settings: string;
  /** Rows are counted by these columns as they are written and merged; null where counts are never asked for. */
  readonly countedBy: readonly string[] | null;
  /** What is shown of a single row, as texts in one column; null where it is never asked for. */
  readonly details: Details | null;
}

/**
 * The expression of each detail, in the order of the texts in the column `details`. A statement pays a quarter of a millisecond for each
 * column that it reads, however few the rows: an event with its attempts took 16 ms of the engine's CPU, and takes 12 from these
 * ("Questions to ten million events" in bench/what-was-tried.md). A list that has landed never changes: its column is already filled.
 */
export type Details = Readonly<Record<string, string>>;

export const EVENT_DETAILS = {
  endpoint_id: "toString(endpoint_id)",
  provider: "toString(provider)",
  method: "toString(method)",
  path: "path",
  query: "query",
  content_type: "content_type",
  source_ip: "source_ip",
  signature_valid: "toString(signature_valid)",
  verification_error: "verification_error",
  reason: "toString(reason)",
  body_stored: "toString(body_stored)",
  payload_size: "toString(payload_size)",
} as const satisfies Details;

export const ATTEMPT_DETAILS = {
  destination_id: "toString(destination_id)",
  endpoint_id: "toString(endpoint_id)",
  attempted_at_ms: "toString(toUnixTimestamp64Milli(attempted_at))",
  run: "toString(run)",
  try_number: "toString(try_number)",
  deferral: "toString(deferral)",
  receiver_url: "toString(receiver_url)",
  http_status: "toString(http_status)",
  latency_ms: "toString(latency_ms)",
  status: "toString(status)",
  next_retry_at_ms: "toString(toUnixTimestamp64Milli(next_retry_at))",
} as const satisfies Details;

/**
 * The text that searches look through: payload and header lines.
 * `lower` changes A–Z only, byte by byte, so binary payloads are searched as well.
 */
export const SEARCH_TEXT = "lower(concat(payload, '\\n', headers))";

/**
 * `SEARCH_TEXT` with U+FFFD for whatever is not UTF-8. The indexes are built on exactly this expression, not on `SEARCH_TEXT`: they
 * take a byte that looks like the first of a character, with up to three bytes after it, for one character, so that in Latin-1 text
 * (`Andr\xE9(Dupont)`) those bytes would be in no 4-gram. The last three bytes of such a payload may be missing here, and are too
 * few for a 4-gram.
 */
export const INDEXED_TEXT =
  "lower(concat(if(isValidUTF8(payload), payload, toValidUTF8(payload)), '\\n', headers))";
const NOT_UTF8 = "\uFFFD";
const GRAM_CHARACTERS = 4;

/**
 * Returns the part of a term that the indexes can be asked for, which is in both texts if the term is in one of them; null if it is too
 * little. Trailing backslashes are left out: for a pattern that ends in `\\\\%`, the indexes also take grams that begin in the middle of
 * an escape, and ask for the 4-gram `\\\%`, which is in no text.
 */
export function indexedPart(term: string): string | null {
  const part = term.replace(/\\+$/, "");
  return Array.from(part).length >= GRAM_CHARACTERS && !part.includes(NOT_UTF8) ? part : null;
}

/**
 * Leaves are kept as 64-bit hashes of their tokens: as texts they took more room than the payloads they are in
 * (0.35 bytes per byte of payload against 0.26, and 0.40 for an inverted index on them). The chance that another token of the same
 * event has the same hash is leaves / 10^19.
 */
const LEAF_HASH = "sipHash64";

/**
 * Two levels of bloom filters over the 4-grams of the text. Reading a fine filter for every granule of ten million
 * events would take a second by itself, so coarse ones of 32 granules each are asked first, and fine ones only
 * where those say maybe. The exact comparison always follows. For 12,000 events of the bench's mix (2.6 KB each),
 * in bytes per byte of payload and MB of payload inserted per CPU second, all other columns included:
 * no text index 0.50 and 23; one fine level of 64 KB filters 0.80 and 13; of 32 KB 0.67 and 14; inverted index of 3-grams 1.22 and 4.
 */
const COARSE_FILTER = "TYPE ngrambf_v1(4, 262144, 1, 0) GRANULARITY 32";
const FINE_FILTER = "TYPE ngrambf_v1(4, 32768, 2, 0) GRANULARITY 1";
export const COARSE_TEXT_FILTER: SkipIndex = {
  name: "text_coarse",
  definition: `${INDEXED_TEXT} ${COARSE_FILTER}`,
};
export const FINE_TEXT_FILTER: SkipIndex = {
  name: "text_fine",
  definition: `${INDEXED_TEXT} ${FINE_FILTER}`,
};
/** The filters as first made: see `INDEXED_TEXT`. */
export const FORMER_TEXT_FILTERS = {
  coarse: { name: "search_coarse", definition: `${SEARCH_TEXT} ${COARSE_FILTER}` },
  fine: { name: "search_fine", definition: `${SEARCH_TEXT} ${FINE_FILTER}` },
} as const satisfies Record<string, SkipIndex>;
/** The filter as first made: see `LEAVES_FILTERS`. */
export const FIRST_LEAVES_FILTER: SkipIndex = {
  name: "leaf_filter",
  definition: "leaves TYPE bloom_filter(0.02) GRANULARITY 1",
};

/**
 * One filter for sixteen granules: granules of events are small, and one filter each would be many to read. For a leaf that
 * one of two million rows (of 20 leaves each) has, 16 granules are read in 32 ms. With a filter per granule, of the same size in
 * total and wrong about two leaves in a hundred, it is 75 granules in 52 ms.
 */
const LEAVES_FILTER = "TYPE bloom_filter(0.001) GRANULARITY 16";

/** What `LEAVES_FILTERS` replaces: one filter of all leaves, which is read whole whichever leaf is asked for. */
export const FORMER_LEAVES_FILTER: SkipIndex = {
  name: "leaves_filter",
  definition: `leaves ${LEAVES_FILTER}`,
};

/** Leaves are split among filters by the lowest bits of their hash, so that a search reads an eighth of the filters. */
export const LEAF_SHARDS = 8;

/** Returns the expression for those leaves of a row that are in one shard; the index is built on exactly this expression. */
export function leavesOfShard(shard: number): string {
  return `arrayFilter(leaf -> leaf % ${LEAF_SHARDS} = ${shard}, leaves)`;
}

export const LEAVES_FILTERS: readonly SkipIndex[] = Array.from(
  { length: LEAF_SHARDS },
  (_, shard) => ({
    name: `leaves_filter_${shard}`,
    definition: `${leavesOfShard(shard)} ${LEAVES_FILTER}`,
  }),
);

function toIndex({ name, definition }: SkipIndex): string {
  return `INDEX ${name} ${definition}`;
}

export const EVENTS: Table = {
  name: "events",
  columns: `
    org_id LowCardinality(String),
    received_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    id String CODEC(ZSTD),
    endpoint_id LowCardinality(String),
    provider LowCardinality(String),
    signature_valid Bool,
    verification_error Nullable(String) CODEC(ZSTD),
    reason LowCardinality(String),
    method LowCardinality(String),
    path String CODEC(ZSTD),
    query String CODEC(ZSTD),
    content_type Nullable(String) CODEC(ZSTD),
    source_ip String CODEC(ZSTD),
    body_stored Bool,
    payload_size UInt64 CODEC(T64, ZSTD),
    headers String CODEC(ZSTD(1)),
    payload String CODEC(ZSTD(1)),
    tokens Array(String) EPHEMERAL,
    leaves Array(UInt64) DEFAULT arrayDistinct(arrayMap(token -> ${LEAF_HASH}(token), tokens)) CODEC(ZSTD(1))`,
  indexes: [...Object.values(FORMER_TEXT_FILTERS), FIRST_LEAVES_FILTER].map(toIndex).join(", "),
  orderBy: "(org_id, received_at, id)",
  day: "received_at",
  shardBy: "cityHash64(id)",
  settings: "index_granularity = 2048, index_granularity_bytes = 1048576",
  countedBy: ["org_id", "endpoint_id", "provider", "signature_valid"],
  details: EVENT_DETAILS,
};

export const ATTEMPTS: Table = {
  name: "attempts",
  columns: `
    org_id LowCardinality(String),
    event_received_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    event_id String CODEC(ZSTD),
    id String CODEC(ZSTD),
    destination_id LowCardinality(String),
    endpoint_id LowCardinality(String),
    provider LowCardinality(String),
    signature_valid Bool,
    run LowCardinality(String),
    cause LowCardinality(String),
    try_number UInt32,
    deferral UInt32,
    attempted_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    receiver_url LowCardinality(String),
    http_status UInt16,
    response_body String CODEC(ZSTD(3)),
    latency_ms UInt32 CODEC(T64, ZSTD),
    status LowCardinality(String),
    next_retry_at Nullable(DateTime64(3, 'UTC')) CODEC(ZSTD)`,
  indexes: "",
  orderBy: "(org_id, event_received_at, event_id, id)",
  day: "event_received_at",
  shardBy: "cityHash64(event_id)",
  settings: "index_granularity = 2048",
  countedBy: ["org_id", "endpoint_id", "provider", "signature_valid", "status"],
  details: ATTEMPT_DETAILS,
};

/** A fan-out is the row among an event's attempts that has this status; its details are the ids of its destinations. */
export const FANOUT_STATUS = "";
const FANOUT_PREFIX = "fan_";

/** Returns the id of an event's fan-out; there is one for each run. */
export function fanoutId(run: string): string {
  return FANOUT_PREFIX + run;
}

export function isFanoutId(id: string): boolean {
  return id.startsWith(FANOUT_PREFIX);
}

/** Where fan-outs were kept before version 8 of the schema. It is empty once the retention is over, and read until then. */
const FORMER_FANOUTS: Table = {
  name: "fanouts",
  columns: `
    org_id LowCardinality(String),
    event_received_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    event_id String CODEC(ZSTD),
    run String CODEC(ZSTD),
    destination_ids Array(LowCardinality(String)),
    fanned_out_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD)`,
  indexes: "",
  orderBy: "(org_id, event_received_at, event_id, run)",
  day: "event_received_at",
  shardBy: "cityHash64(event_id)",
  settings: "index_granularity = 2048",
  countedBy: null,
  details: null,
};

export const TABLES = [EVENTS, ATTEMPTS, FORMER_FANOUTS] as const;
