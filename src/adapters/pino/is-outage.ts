/** Of the system: the other side is away, or a limit of the machine is reached. */
const AWAY_CODES = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "EMFILE",
  "ENETDOWN",
  "ENETUNREACH",
  "ENFILE",
  "ENOSPC",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
]);
/** Kafka's client gives most of these no code. */
const AWAY_NAMES = new Set([
  "KafkaJSConnectionClosedError",
  "KafkaJSConnectionError",
  "KafkaJSRequestTimeoutError",
]);
/** Kafka's own words for a broker that is starting, or about to hand over, or whose replicas or disk are away. */
const AWAY_TYPES = new Set([
  "BROKER_NOT_AVAILABLE",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
  "GROUP_LOAD_IN_PROGRESS",
  "KAFKA_STORAGE_ERROR",
  "LEADER_NOT_AVAILABLE",
  "NETWORK_EXCEPTION",
  "NOT_COORDINATOR_FOR_GROUP",
  "NOT_ENOUGH_REPLICAS",
  "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
  "NOT_LEADER_FOR_PARTITION",
  "REPLICA_NOT_AVAILABLE",
  "REQUEST_TIMED_OUT",
]);
/** Codes of our own errors by which an adapter says the same. */
const UNAVAILABLE_CODES = new Set([
  "unavailable",
  "store_busy",
  "store_unavailable",
  "log_full",
  "log_outcome_unknown",
  "log_unavailable",
]);
/**
 * No connection, no such user, right or database, no room, shutting down, a disk that fails, no writes, a transaction that took too long:
 * PostgreSQL's codes that say nothing about a statement.
 */
const OUTAGE_SQLSTATE = /^(?:(?:08|28|3D|53|57|58)[0-9A-Z]{3}|25006|42501|25P0[34])$/;
const SQLSTATE = /^[0-9A-Z]{5}$/;

/**
 * Returns whether an error says that something outside is away, full or refuses the relay. What the store said is all there is to
 * know then: a stack would only show where the relay noticed it.
 */
export function isOutage(error: Error): boolean {
  return judge(error, []) === true;
}

/** Returns null where it cannot be told. The innermost cause that can be told decides: what is around it may be for any failure. */
function judge(error: Error, above: readonly Error[]): boolean | null {
  const { cause } = error;
  const inner =
    cause instanceof Error && !above.includes(cause) ? judge(cause, [...above, error]) : null;
  return inner ?? judgeAlone(error);
}

function judgeAlone(error: Error): boolean | null {
  if (isThrownByLanguage(error)) return false;
  const code = "code" in error ? String(error.code) : "";
  const type = "type" in error ? String(error.type) : "";
  if (
    AWAY_CODES.has(code) ||
    AWAY_NAMES.has(error.name) ||
    AWAY_TYPES.has(type) ||
    UNAVAILABLE_CODES.has(code) ||
    OUTAGE_SQLSTATE.test(code)
  )
    return true;
  return code === "store_refused" || SQLSTATE.test(code) ? false : null;
}

function isThrownByLanguage(error: Error): boolean {
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((type) => error instanceof type);
}
