#!/bin/sh
# Copies what a relay with embedded stores knows to the stores of a cluster, while that relay runs. The order of things is in
# README.md, "From one machine to a cluster". Needs psql and curl; runs as the relay's user, on its machine.
#
#   DATABASE_URL=… move-to-cluster.sh configuration DATA_DIR
#   CLICKHOUSE_URL=… move-to-cluster.sh history DATA_DIR
#
# No URL is ever an argument of psql or curl: they hold passwords, and all users of the machine see arguments (ps).
set -eu

usage() {
  echo "usage: move-to-cluster.sh configuration|history DATA_DIR (RELAY_DATA_DIR of the relay that moves)" >&2
  exit 2
}

fail() {
  echo "$1" >&2
  exit 1
}

# Projects, endpoints with their URLs, destinations, keys and the audit table, whole or not at all.
copy_configuration() {
  migrated=$(echo "SELECT to_regclass('settings') IS NOT NULL;" | run_in_cluster)
  [ "$migrated" = t ] || fail "DATABASE_URL has no tables of a relay yet: run relay migrate first"
  used=$(echo "SELECT count(*) FROM settings;" | run_in_cluster)
  [ "$used" -eq 0 ] || fail "DATABASE_URL has a configuration already, which was copied there before or is that of a relay that has been started: nothing is copied there"
  write_configuration >"$draft"
  run_in_cluster <"$draft"
  endpoints=$(ask_postgres "SELECT count(*) FROM endpoints")
  destinations=$(ask_postgres "SELECT count(*) FROM destinations")
  echo "endpoints: $endpoints, destinations: $destinations (those deleted are among them)"
}

write_configuration() {
  echo "BEGIN;"
  for table in settings organizations api_keys projects endpoints destinations \
    "audit_log (org_id, actor, action, target_id, at, detail)"; do
    echo "COPY $table FROM STDIN;"
    ask_postgres "COPY $table TO STDOUT"
    echo "\\."
  done
  echo "COMMIT;"
}

# Runs what it reads in the PostgreSQL of the cluster, to which psql can be told to go only from another one.
run_in_cluster() {
  {
    printf '%s\n' '\set url `printenv DATABASE_URL`' '\connect :url'
    cat
  } | psql -XAtq -v ON_ERROR_STOP=1 -h "$sockets" -U postgres
}

ask_postgres() {
  psql -XAtq -h "$sockets" -U postgres -c "$1"
}

# The embedded store answers out of its memory, of which it may have no more than a few hundred megabytes.
piece_bytes=32000000

# Events and attempts, piece by piece. What is copied twice counts once.
copy_history() {
  for table in events attempts fanouts; do
    time=event_received_at
    case "$table" in
    events)
      time=received_at
      bytes="payload_size + length(headers) + 20 * length(leaves) + 1000"
      ;;
    attempts) bytes="length(response_body) + 1000" ;;
    fanouts) bytes=1000 ;;
    esac
    columns=$(ask_clickhouse "$old" "SELECT arrayStringConcat(groupArray(name), ',') FROM system.columns
      WHERE database = currentDatabase() AND table = '$table' AND default_kind != 'EPHEMERAL'")
    starts=$(ask_clickhouse "$old" "SELECT DISTINCT toUnixTimestamp(toStartOfTenMinutes($time)) AS at FROM $table ORDER BY at")
    for start in $starts; do
      pieces=$(pieces_of "$start")
      for piece in $pieces; do
        rows="FROM $table WHERE $time BETWEEN $(time_of "${piece%-*}") AND $(time_of "${piece#*-}")"
        ask_clickhouse "$old" "SELECT $columns $rows FORMAT TabSeparated" >"$draft"
        insert "$draft" "INSERT INTO $table ($columns) FORMAT TabSeparated"
      done
    done
    count=$(ask_clickhouse "$new" "SELECT count() FROM $table FINAL")
    echo "$table: $count rows are there now"
  done
}

# Splits ten minutes from a second on: the first and the last millisecond of each piece.
pieces_of() {
  ask_clickhouse "$old" "SELECT concat(toString(min(at)), '-', toString(max(at))) FROM (
      SELECT at, intDiv(sum(bytes) OVER (ORDER BY at), $piece_bytes) AS piece FROM (
        SELECT toUnixTimestamp64Milli($time) AS at, sum($bytes) AS bytes FROM $table
        WHERE $time >= $(time_of "${1}000") AND $time < $(time_of "$((${1} + 600))000") GROUP BY at))
    GROUP BY piece ORDER BY piece"
}

time_of() {
  echo "fromUnixTimestamp64Milli($1, 'UTC')"
}

# Says why, where that would be taken for the answer.
ask_clickhouse() {
  curl_config "$1" | curl -sS --fail-with-body -K - --data-binary "$2" >"$answer" || {
    cat "$answer" >&2
    return 1
  }
  cat "$answer"
}

insert() {
  query=$(echo "$2" | sed 's/ /%20/g')
  curl_config "$new&distributed_foreground_insert=1&query=$query" | curl -sS --fail-with-body -K - -X POST -T "$1"
}

curl_config() {
  printf '%s\n' "$1" | sed 's/[\\"]/\\&/g; s/.*/url = "&"/'
}

# Turns http://user:password@host:port/database into what takes statements.
statements_url() {
  case "${1#*://}" in
  */?*) echo "${1%/*}/?database=${1##*/}" ;;
  *) echo "${1%/}/?database=default" ;;
  esac
}

[ $# -eq 2 ] || usage
case "$1" in configuration | history) ;; *) usage ;; esac
run="$2/run"
umask 077
draft=$(mktemp)
answer=$(mktemp)
trap 'rm -f "$draft" "$answer"' EXIT
# Without these, some shells leave the files behind when they are ended.
trap 'exit 130' INT
trap 'exit 143' HUP TERM
if [ "$1" = configuration ]; then
  : "${DATABASE_URL:?set it to the PostgreSQL of the cluster}"
  # Elsewhere if the path of the directory is too long for a socket.
  sockets=$(cat "$run/socket-directory" 2>/dev/null || (cd "$run" 2>/dev/null && pwd -P) || echo "$run")
  ask_postgres "SELECT 1" >"$draft" || fail "no relay with an embedded PostgreSQL runs in $2"
  copy_configuration
else
  : "${CLICKHOUSE_URL:?set it to the ClickHouse of the cluster}"
  old=$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$run/clickhouse.json" 2>/dev/null || echo "http://$run")
  old=$(statements_url "$old")
  ask_clickhouse "$old" "SELECT 1" >"$draft" || fail "no relay with an embedded ClickHouse runs in $2"
  new=$(statements_url "$CLICKHOUSE_URL")
  copy_history
fi
