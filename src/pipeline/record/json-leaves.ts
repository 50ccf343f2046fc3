import { escapeKey, isWithin, MAX_FIELD_LENGTH } from "../../domain/searchable-leaf.ts";

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** A container that is being read; `path` is null once it is too long to be asked for. */
interface Frame {
  readonly path: string | null;
  readonly isObject: boolean;
  index: number;
}

/**
 * Walks a JSON text and reports its first `maxLeaves` scalars in the order of the text, numbers as they are
 * written (which `JSON.parse` would lose), strings unescaped. Nothing recurses, so no depth is too deep.
 * Empty objects and arrays have no leaf. Returns false when the text is not JSON.
 */
export function walkJsonLeaves(
  text: string,
  maxLeaves: number,
  onLeaf: (path: string, value: string) => void,
): boolean {
  const stack: Frame[] = [];
  let path: string | null = "";
  let leaves = 0;
  let at = skipSpace(text, 0);
  for (;;) {
    // One value at `at`, whose path is `path`.
    const first = text.charAt(at);
    if (first === "{" || first === "[") {
      const isObject = first === "{";
      at = skipSpace(text, at + 1);
      if (text.charAt(at) === (isObject ? "}" : "]")) at += 1;
      else {
        stack.push({ path, isObject, index: 0 });
        const next = enter(text, at, stack);
        if (next === null) return false;
        ({ at, path } = next);
        continue;
      }
    } else {
      const end = scalarEnd(text, at);
      if (end < 0) return false;
      if (path !== null) {
        onLeaf(path, scalarValue(text, at, end));
        leaves += 1;
        if (leaves >= maxLeaves) return true;
      }
      at = end;
    }
    // What follows a value: more of its container, or the end of one or several.
    for (;;) {
      at = skipSpace(text, at);
      const frame = stack.at(-1);
      if (frame === undefined) return at === text.length;
      const mark = text.charAt(at);
      if (mark === ",") {
        frame.index += 1;
        const next = enter(text, skipSpace(text, at + 1), stack);
        if (next === null) return false;
        ({ at, path } = next);
        break;
      }
      if (mark !== (frame.isObject ? "}" : "]")) return false;
      stack.pop();
      at += 1;
    }
  }
}

/** Moves to the next value of the innermost container, past its key. Null when that is not JSON. */
function enter(
  text: string,
  from: number,
  stack: readonly Frame[],
): { at: number; path: string | null } | null {
  const frame = stack.at(-1)!;
  if (!frame.isObject)
    return { at: from, path: childPath(frame, String(frame.index), stack.length) };
  const end = text.charCodeAt(from) === QUOTE ? stringEnd(text, from) : -1;
  if (end < 0) return null;
  const colon = skipSpace(text, end);
  if (text.charAt(colon) !== ":") return null;
  const key = frame.path === null ? "" : escapeKey(scalarValue(text, from, end));
  return { at: skipSpace(text, colon + 1), path: childPath(frame, key, stack.length) };
}

function childPath(frame: Frame, key: string, depth: number): string | null {
  if (frame.path === null) return null;
  const path = depth === 1 ? key : `${frame.path}.${key}`;
  return isWithin(path, MAX_FIELD_LENGTH) ? path : null;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
    at += 1;
  }
}

/** Index after the scalar at `at`, or -1. */
function scalarEnd(text: string, at: number): number {
  if (text.charCodeAt(at) === QUOTE) return stringEnd(text, at);
  for (const word of ["true", "false", "null"])
    if (text.startsWith(word, at)) return at + word.length;
  NUMBER.lastIndex = at;
  return NUMBER.test(text) ? NUMBER.lastIndex : -1;
}

function stringEnd(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code < 0x20) return -1;
    if (code === BACKSLASH) at += 1;
  }
  return -1;
}

function scalarValue(text: string, from: number, end: number): string {
  if (text.charCodeAt(from) !== QUOTE) return text.slice(from, end);
  const inner = text.slice(from + 1, end - 1);
  if (!inner.includes("\\")) return inner;
  try {
    return JSON.parse(text.slice(from, end)) as string;
  } catch {
    return inner;
  }
}
