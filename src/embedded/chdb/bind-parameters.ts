import { sqlLiteral } from "./statement.ts";

const PLACEHOLDER = /\{(\w+):([^{}]+)\}/g;
const NULL = "\\N";
const ESCAPE = /\\(.)/gs;
/** What a letter after a backslash stands for in ClickHouse's escaped text; any other character stands for itself. */
const ESCAPED: Readonly<Record<string, string>> = {
  "0": "\0",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/**
 * Returns the statement with its parameters in place of `{name:Type}`, as ClickHouse itself puts them there. To `SET` them in the
 * session takes another statement for each that reads: an event by its id took an eighth longer ("Questions to ten million events"
 * in bench/what-was-tried.md).
 *
 * @param parameters in the escaped text form of the HTTP interface: for a `String`, the field of a TabSeparated row; for any other type,
 *   the text that is cast to it
 */
export function bindParameters(sql: string, parameters: ReadonlyMap<string, string>): string {
  if (parameters.size === 0) return sql;
  return sql.replaceAll(PLACEHOLDER, (placeholder, name: string, type: string) => {
    const value = parameters.get(name);
    if (value === undefined) return placeholder;
    if (value === NULL) return `_CAST(NULL, ${sqlLiteral(type)})`;
    if (type === "String") return sqlLiteral(unescapeText(value));
    return `_CAST(${sqlLiteral(value)}, ${sqlLiteral(type)})`;
  });
}

function unescapeText(text: string): string {
  return text.replaceAll(ESCAPE, (_, letter: string) => ESCAPED[letter] ?? letter);
}
