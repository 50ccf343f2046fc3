/**
 * The tables. `events` is read by organization and time; `received_at` is the time inside the id, so an id alone
 * finds its row by the primary key. `attempts` carries what facets filter by, so that they need no join.
 *
 * The same row may be stored twice (redelivery after a crash): rows with equal keys collapse when parts are
 * merged, and queries either read FINAL or drop equal neighbours.
 */
export interface SchemaOptions {
  readonly retentionDays: number;
  /** Name of a ClickHouse cluster: replicated tables behind Distributed ones. */
  readonly cluster?: string | undefined;
}

export interface Table {
  readonly name: string;
  readonly columns: string;
  readonly indexes: string;
  readonly orderBy: string;
  readonly day: string;
  readonly shardBy: string;
  readonly settings: string;
}

/**
 * What free text is searched in, payload and header lines; the index stands on this very expression.
 * `lower` changes A–Z only, byte by byte, so binary payloads are searched as well.
 */
export const SEARCH_TEXT = "lower(concat(payload, '\\n', headers))";

/** One bloom filter per granule; a granule holds about 512 KB of rows, whatever the size of one. */
const TEXT_INDEX = `INDEX search_text ${SEARCH_TEXT} TYPE ngrambf_v1(4, 65536, 2, 0) GRANULARITY 1`;
const TOKEN_INDEX = "INDEX tokens_index tokens TYPE text(tokenizer = 'array') GRANULARITY 64";

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
    headers String CODEC(ZSTD(3)),
    payload String CODEC(ZSTD(3)),
    tokens Array(String) CODEC(ZSTD(3))`,
  indexes: `${TEXT_INDEX}, ${TOKEN_INDEX}`,
  orderBy: "(org_id, received_at, id)",
  day: "received_at",
  shardBy: "cityHash64(id)",
  settings: "index_granularity = 1024, index_granularity_bytes = 524288",
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
};

export const FANOUTS: Table = {
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
};

export const TABLES = [EVENTS, ATTEMPTS, FANOUTS] as const;
