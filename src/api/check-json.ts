import { invalid, nameOfField } from "./api-failure.ts";

const MAX_DEPTH = 32;
/** Half of a UTF-16 pair on its own: not Unicode text, so no store can keep it. */
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

/** Where a value is: keys and indexes from the outside in. */
type Path = (string | number)[];

/**
 * Refuses what JSON allows and the stores do not: NUL characters, lone surrogates, numbers beyond double precision's
 * range, keys that would reach a prototype, and unlimited nesting.
 * @throws {ApiFailure} `validation_error` that names the field
 */
export function checkJson(value: unknown): void {
  checkValue(value, []);
}

/** Uses one path for all values and turns it into text only for an error: a body of 1 MB may hold half a million values. */
function checkValue(value: unknown, path: Path): void {
  if (typeof value === "string") checkText(value, path);
  else if (typeof value === "number" && !Number.isFinite(value))
    throw invalid(nameOf(path), "the number is out of range.");
  else if (typeof value === "object" && value !== null) {
    if (path.length >= MAX_DEPTH)
      throw invalid(
        nameOf(typeof path[0] === "string" ? [path[0]] : []),
        `nested deeper than ${MAX_DEPTH} levels.`,
      );
    if (Array.isArray(value)) checkList(value, path);
    else checkObject(value, path);
  }
}

function checkList(list: readonly unknown[], path: Path): void {
  for (let index = 0; index < list.length; index += 1) {
    path.push(index);
    checkValue(list[index], path);
    path.pop();
  }
}

function checkObject(object: object, path: Path): void {
  for (const [key, child] of Object.entries(object)) {
    if (key === "__proto__") throw invalid(nameOf([...path, key]), "unknown field.");
    checkText(key, path, "a key ");
    path.push(key);
    checkValue(child, path);
    path.pop();
  }
}

function checkText(text: string, path: Path, what = ""): void {
  if (text.includes("\0")) throw invalid(nameOf(path), `${what}must not contain NUL characters.`);
  if (LONE_SURROGATE.test(text))
    throw invalid(nameOf(path), `${what}must be well-formed Unicode text.`);
}

function nameOf(path: Path): string {
  return nameOfField(path, "body");
}
