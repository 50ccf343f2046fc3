import { invalid, nameOfField } from "./api-failure.ts";

/**
 * Reads query parameters by name (application/x-www-form-urlencoded: `+` is a space). Each may occur once; broken
 * percent-encoding and NUL are refused rather than repaired.
 * @throws {ApiFailure} `validation_error` that names the parameter
 */
export function readQuery(rawQuery: string): Record<string, string> {
  const parameters = new Map<string, string>();
  for (const pair of rawQuery.split("&")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    const name = decode(at < 0 ? pair : pair.slice(0, at), "query");
    const value = decode(at < 0 ? "" : pair.slice(at + 1), nameOfField([name], "query"));
    if (parameters.has(name)) throw invalid(nameOfField([name], "query"), "given more than once.");
    if (name === "__proto__") throw invalid(name, "unknown query parameter.");
    parameters.set(name, value);
  }
  return Object.fromEntries(parameters);
}

function decode(text: string, field: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw invalid(field, "is not valid percent-encoded UTF-8.");
  }
  if (decoded.includes("\0")) throw invalid(field, "must not contain NUL characters.");
  return decoded;
}
