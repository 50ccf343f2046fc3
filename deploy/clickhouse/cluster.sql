-- The tables of a ClickHouse cluster: Replicated ones on every node, Distributed ones before them.
-- Written by: node scripts/check-deploy.js --write-cluster-ddl   (30 days of retention, cluster name relay)
-- Every node needs the macros {shard} and {replica}, and ClickHouse Keeper. See deploy/README.md.

CREATE TABLE IF NOT EXISTS events_local ON CLUSTER 'relay' (
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
    leaves Array(UInt64) DEFAULT arrayDistinct(arrayMap(token -> sipHash64(token), tokens)) CODEC(ZSTD(1)), INDEX search_coarse lower(concat(payload, '\n', headers)) TYPE ngrambf_v1(4, 262144, 1, 0) GRANULARITY 32, INDEX search_fine lower(concat(payload, '\n', headers)) TYPE ngrambf_v1(4, 32768, 2, 0) GRANULARITY 1, INDEX leaf_filter leaves TYPE bloom_filter(0.02) GRANULARITY 1)
     ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/events_local', '{replica}')
     PARTITION BY toDate(received_at)
     ORDER BY (org_id, received_at, id)
     TTL toDateTime(received_at) + toIntervalDay(30)
     SETTINGS ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1, replicated_deduplication_window = 10000,
       fsync_after_insert = 1, fsync_part_directory = 1,
       min_age_to_force_merge_seconds = 14400, min_age_to_force_merge_on_partition_only = 1,
       index_granularity = 2048, index_granularity_bytes = 1048576;

CREATE TABLE IF NOT EXISTS events ON CLUSTER 'relay' AS events_local
       ENGINE = Distributed('relay', currentDatabase(), events_local, cityHash64(id));

CREATE TABLE IF NOT EXISTS attempts_local ON CLUSTER 'relay' (
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
    next_retry_at Nullable(DateTime64(3, 'UTC')) CODEC(ZSTD))
     ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/attempts_local', '{replica}')
     PARTITION BY toDate(event_received_at)
     ORDER BY (org_id, event_received_at, event_id, id)
     TTL toDateTime(event_received_at) + toIntervalDay(30)
     SETTINGS ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1, replicated_deduplication_window = 10000,
       fsync_after_insert = 1, fsync_part_directory = 1,
       min_age_to_force_merge_seconds = 14400, min_age_to_force_merge_on_partition_only = 1,
       index_granularity = 2048;

CREATE TABLE IF NOT EXISTS attempts ON CLUSTER 'relay' AS attempts_local
       ENGINE = Distributed('relay', currentDatabase(), attempts_local, cityHash64(event_id));

CREATE TABLE IF NOT EXISTS fanouts_local ON CLUSTER 'relay' (
    org_id LowCardinality(String),
    event_received_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    event_id String CODEC(ZSTD),
    run String CODEC(ZSTD),
    destination_ids Array(LowCardinality(String)),
    fanned_out_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD))
     ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/fanouts_local', '{replica}')
     PARTITION BY toDate(event_received_at)
     ORDER BY (org_id, event_received_at, event_id, run)
     TTL toDateTime(event_received_at) + toIntervalDay(30)
     SETTINGS ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1, replicated_deduplication_window = 10000,
       fsync_after_insert = 1, fsync_part_directory = 1,
       min_age_to_force_merge_seconds = 14400, min_age_to_force_merge_on_partition_only = 1,
       index_granularity = 2048;

CREATE TABLE IF NOT EXISTS fanouts ON CLUSTER 'relay' AS fanouts_local
       ENGINE = Distributed('relay', currentDatabase(), fanouts_local, cityHash64(event_id));

ALTER TABLE events_local ON CLUSTER 'relay' MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild';

ALTER TABLE events_local ON CLUSTER 'relay' ADD PROJECTION IF NOT EXISTS facets (SELECT org_id, endpoint_id, provider, signature_valid, count() GROUP BY org_id, endpoint_id, provider, signature_valid);

ALTER TABLE events_local ON CLUSTER 'relay' MATERIALIZE PROJECTION facets SETTINGS mutations_sync = 0;

ALTER TABLE attempts_local ON CLUSTER 'relay' MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild';

ALTER TABLE attempts_local ON CLUSTER 'relay' ADD PROJECTION IF NOT EXISTS facets (SELECT org_id, endpoint_id, provider, signature_valid, status, count() GROUP BY org_id, endpoint_id, provider, signature_valid, status);

ALTER TABLE attempts_local ON CLUSTER 'relay' MATERIALIZE PROJECTION facets SETTINGS mutations_sync = 0;

ALTER TABLE events_local ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS leaves_filter leaves TYPE bloom_filter(0.001) GRANULARITY 16;

ALTER TABLE events_local ON CLUSTER 'relay' MATERIALIZE INDEX leaves_filter SETTINGS mutations_sync = 0;

KILL MUTATION ON CLUSTER 'relay' WHERE database = currentDatabase() AND table = 'events_local'
       AND NOT is_done AND match(command, 'MATERIALIZE INDEX leaf_filter\\b') SYNC;

ALTER TABLE events_local ON CLUSTER 'relay' DROP INDEX IF EXISTS leaf_filter SETTINGS mutations_sync = 0, alter_sync = 0;

ALTER TABLE events_local ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS leaves_filter_0 arrayFilter(leaf -> leaf % 8 = 0, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_1 arrayFilter(leaf -> leaf % 8 = 1, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_2 arrayFilter(leaf -> leaf % 8 = 2, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_3 arrayFilter(leaf -> leaf % 8 = 3, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_4 arrayFilter(leaf -> leaf % 8 = 4, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_5 arrayFilter(leaf -> leaf % 8 = 5, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_6 arrayFilter(leaf -> leaf % 8 = 6, leaves) TYPE bloom_filter(0.001) GRANULARITY 16, ADD INDEX IF NOT EXISTS leaves_filter_7 arrayFilter(leaf -> leaf % 8 = 7, leaves) TYPE bloom_filter(0.001) GRANULARITY 16;

ALTER TABLE events_local ON CLUSTER 'relay' MATERIALIZE INDEX leaves_filter_0, MATERIALIZE INDEX leaves_filter_1, MATERIALIZE INDEX leaves_filter_2, MATERIALIZE INDEX leaves_filter_3, MATERIALIZE INDEX leaves_filter_4, MATERIALIZE INDEX leaves_filter_5, MATERIALIZE INDEX leaves_filter_6, MATERIALIZE INDEX leaves_filter_7 SETTINGS mutations_sync = 0;

KILL MUTATION ON CLUSTER 'relay' WHERE database = currentDatabase() AND table = 'events_local'
       AND NOT is_done AND match(command, 'MATERIALIZE INDEX leaves_filter\\b') SYNC;

ALTER TABLE events_local ON CLUSTER 'relay' DROP INDEX IF EXISTS leaves_filter SETTINGS mutations_sync = 0, alter_sync = 0;

ALTER TABLE events_local ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS text_coarse lower(concat(if(isValidUTF8(payload), payload, toValidUTF8(payload)), '\n', headers)) TYPE ngrambf_v1(4, 262144, 1, 0) GRANULARITY 32;

ALTER TABLE events_local ON CLUSTER 'relay' MATERIALIZE INDEX text_coarse SETTINGS mutations_sync = 0;

KILL MUTATION ON CLUSTER 'relay' WHERE database = currentDatabase() AND table = 'events_local'
       AND NOT is_done AND match(command, 'MATERIALIZE INDEX search_coarse\\b') SYNC;

ALTER TABLE events_local ON CLUSTER 'relay' DROP INDEX IF EXISTS search_coarse SETTINGS mutations_sync = 0, alter_sync = 0;

ALTER TABLE events_local ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS text_fine lower(concat(if(isValidUTF8(payload), payload, toValidUTF8(payload)), '\n', headers)) TYPE ngrambf_v1(4, 32768, 2, 0) GRANULARITY 1;

ALTER TABLE events_local ON CLUSTER 'relay' MATERIALIZE INDEX text_fine SETTINGS mutations_sync = 0;

KILL MUTATION ON CLUSTER 'relay' WHERE database = currentDatabase() AND table = 'events_local'
       AND NOT is_done AND match(command, 'MATERIALIZE INDEX search_fine\\b') SYNC;

ALTER TABLE events_local ON CLUSTER 'relay' DROP INDEX IF EXISTS search_fine SETTINGS mutations_sync = 0, alter_sync = 0;

ALTER TABLE events_local ON CLUSTER 'relay' MODIFY SETTING merge_selector_base = 10;

ALTER TABLE events_local ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS details Array(Nullable(String)) DEFAULT [toString(endpoint_id), toString(provider), toString(method), path, query, content_type, source_ip, toString(signature_valid), verification_error, toString(reason), toString(body_stored), toString(payload_size)] CODEC(ZSTD(1));

ALTER TABLE events_local ON CLUSTER 'relay' MATERIALIZE COLUMN details SETTINGS mutations_sync = 0;

ALTER TABLE events ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS details Array(Nullable(String)) DEFAULT [toString(endpoint_id), toString(provider), toString(method), path, query, content_type, source_ip, toString(signature_valid), verification_error, toString(reason), toString(body_stored), toString(payload_size)] CODEC(ZSTD(1));

ALTER TABLE attempts_local ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS details Array(Nullable(String)) DEFAULT [toString(destination_id), toString(endpoint_id), toString(toUnixTimestamp64Milli(attempted_at)), toString(run), toString(try_number), toString(deferral), toString(receiver_url), toString(http_status), toString(latency_ms), toString(status), toString(toUnixTimestamp64Milli(next_retry_at))] CODEC(ZSTD(1));

ALTER TABLE attempts_local ON CLUSTER 'relay' MATERIALIZE COLUMN details SETTINGS mutations_sync = 0;

ALTER TABLE attempts ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS details Array(Nullable(String)) DEFAULT [toString(destination_id), toString(endpoint_id), toString(toUnixTimestamp64Milli(attempted_at)), toString(run), toString(try_number), toString(deferral), toString(receiver_url), toString(http_status), toString(latency_ms), toString(status), toString(toUnixTimestamp64Milli(next_retry_at))] CODEC(ZSTD(1));
