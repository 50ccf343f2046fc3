import { invalid } from "./api-failure.ts";

const MAX_DEPTH = 32;
/** Half of a UTF-16 pair alone: no Unicode text, so no store can keep it. */
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

/**
 * Refuses what JSON allows and the stores do not: NUL characters, lone surrogates, numbers beyond
 * double precision's range, keys that would reach a prototype, and nesting without end.
 * @throws {ApiFailure} `validation_error` that names the field
 */
export function checkJson(value: unknown): void {
  const pending: { value: unknown; path: string; depth: number }[] = [
    { value, path: "", depth: 0 },
  ];
  for (let item = pending.pop(); item !== undefined; item = pending.pop()) {
    const { value, path, depth } = item;
    if (typeof value === "string") checkText(value, path || "body");
    else if (typeof value === "number" && !Number.isFinite(value))
      throw invalid(path || "body", "the number is out of range.");
    else if (typeof value === "object" && value !== null) {
      if (depth >= MAX_DEPTH)
        throw invalid(path.split(".")[0] || "body", `nested deeper than ${MAX_DEPTH} levels.`);
      for (const [key, child] of Object.entries(value)) {
        checkKey(key, path);
        pending.push({
          value: child,
          path: path === "" ? key : `${path}.${key}`,
          depth: depth + 1,
        });
      }
    }
  }
}

function checkKey(key: string, path: string): void {
  if (key === "__proto__") throw invalid(path === "" ? key : `${path}.${key}`, "unknown field.");
  checkText(key, path || "body");
}

function checkText(text: string, field: string): void {
  if (text.includes("\0")) throw invalid(field, "must not contain NUL characters.");
  if (LONE_SURROGATE.test(text)) throw invalid(field, "must be well-formed Unicode text.");
}
