/** A parsed request of ClickHouse's HTTP interface. */
export interface Statement {
  readonly sql: string;
  /** Rows that follow an `INSERT … FORMAT X`; null when the statement stands alone. */
  readonly data: Buffer | null;
  readonly queryId: string;
  readonly database: string;
  /** `param_x` values, in the escaped text form that the HTTP interface takes. */
  readonly parameters: ReadonlyMap<string, string>;
  readonly settings: ReadonlyMap<string, string>;
  readonly reads: boolean;
}

/** Parameters of the HTTP interface itself, for which the engine has no setting. */
const HTTP_ONLY = new Set([
  "query",
  "query_id",
  "database",
  "user",
  "password",
  "role",
  "session_id",
  "session_timeout",
  "session_check",
  "wait_end_of_query",
  "buffer_size",
  "compress",
  "decompress",
  "default_format",
  "enable_http_compression",
  "send_progress_in_http_headers",
  "http_headers_progress_interval_ms",
  "cancel_http_readonly_queries_on_client_close",
]);
const NAME = /^\w+$/;
const READS = /^\s*(?:--[^\n]*\n\s*)*(?:SELECT|WITH|EXPLAIN|SHOW|DESCRIBE|EXISTS)\b/i;
/** Formats with one line per row: chDB takes an empty line for the end of the rows. */
const LINE_FORMAT = /\bFORMAT\s+(?:JSONEachRow|JSONCompactEachRow|TabSeparated|TSV)\s*$/i;
const INSERT = /^\s*INSERT\b/i;
/** A server forgets these with the request; here the session would keep them, for the relay's own statements. */
const CHANGES_SESSION = /(?:^|;)(?:\s|--[^\n]*\n|\/\*.*?\*\/)*(?:SET|USE)\s/is;

/** @throws {StatementError} when the request cannot be carried out here */
export function parseStatement(search: URLSearchParams, body: Buffer): Statement {
  const head = search.get("query") ?? "";
  const data = INSERT.test(head) && body.length > 0 ? body : null;
  const sql = data === null ? [head, body.toString("utf8")].filter(Boolean).join("\n") : head;
  if (data !== null && !LINE_FORMAT.test(head))
    throw new StatementError(
      73,
      "UNKNOWN_FORMAT",
      "The embedded ClickHouse takes inserts as TabSeparated or JSONEachRow only",
    );
  if (sql.trim() === "") throw new StatementError(62, "SYNTAX_ERROR", "Empty query");
  if (CHANGES_SESSION.test(sql))
    throw new StatementError(
      344,
      "SUPPORT_IS_DISABLED",
      "SET and USE have no effect over HTTP: give settings and the database in the URL (?database=relay&max_threads=1)",
    );
  const parameters = new Map<string, string>();
  const settings = new Map<string, string>();
  for (const [name, value] of search) {
    if (HTTP_ONLY.has(name)) continue;
    if (!NAME.test(name)) throw new StatementError(115, "UNKNOWN_SETTING", `Bad setting ${name}`);
    if (name.startsWith("param_")) parameters.set(name.slice("param_".length), value);
    else settings.set(name, value);
  }
  const reads = READS.test(sql);
  // `readonly` could never be taken back in a session, so it is enforced here.
  const readonly = settings.get("readonly") ?? "0";
  settings.delete("readonly");
  if (readonly !== "0" && !reads)
    throw new StatementError(164, "READONLY", "Cannot execute query in readonly mode");
  return {
    sql,
    data,
    queryId: search.get("query_id") ?? "",
    database: search.get("database") ?? "default",
    parameters,
    settings,
    reads,
  };
}

/** An error in the form that ClickHouse sends: number, name, text. */
export class StatementError extends Error {
  readonly code: number;
  constructor(code: number, name: string, text: string) {
    super(`Code: ${code}. DB::Exception: ${text}. (${name})`);
    this.name = "StatementError";
    this.code = code;
  }
}

/** Returns a string literal of ClickHouse's SQL; NUL is escaped since statements cross a C string. */
export function sqlLiteral(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\0", "\\0")}'`;
}
