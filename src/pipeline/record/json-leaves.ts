import { escapeKey, isWithin, MAX_FIELD_LENGTH } from "../../domain/searchable-leaf.ts";

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const HEX_DIGITS = /[\da-fA-F]{4}/y;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** A container that is being read, whose path can be asked for. */
interface Frame {
  readonly path: string;
  readonly isObject: boolean;
  index: number;
}

/** The containers around a value. Those without a path take a byte each: a payload may be ten million of them, one in the other. */
class OpenContainers {
  readonly #frames: Frame[] = [];
  /** Inside the innermost frame: 1 for an object. */
  #beyond = new Uint8Array(0);
  #beyondCount = 0;

  get isEmpty(): boolean {
    return this.#frames.length === 0;
  }

  get isObject(): boolean {
    return this.#beyondCount > 0
      ? this.#beyond[this.#beyondCount - 1] === 1
      : this.#frames.at(-1)!.isObject;
  }

  /** Null inside containers that have no path. */
  get frame(): Frame | null {
    return this.#beyondCount > 0 ? null : this.#frames.at(-1)!;
  }

  /** @param path null once it is too long to be asked for, and so are all inside it */
  push(path: string | null, isObject: boolean): void {
    if (path !== null) this.#frames.push({ path, isObject, index: 0 });
    else {
      if (this.#beyondCount === this.#beyond.length) {
        const longer = new Uint8Array(Math.max(64, this.#beyond.length * 2));
        longer.set(this.#beyond);
        this.#beyond = longer;
      }
      this.#beyond[this.#beyondCount] = isObject ? 1 : 0;
      this.#beyondCount += 1;
    }
  }

  pop(): void {
    if (this.#beyondCount > 0) this.#beyondCount -= 1;
    else this.#frames.pop();
  }

  /** The path of a key or index of the innermost container. */
  pathOf(key: string): string | null {
    const { frame } = this;
    if (frame === null) return null;
    const path = this.#frames.length === 1 ? key : `${frame.path}.${key}`;
    return isWithin(path, MAX_FIELD_LENGTH) ? path : null;
  }
}

/**
 * Walks a JSON text and reports its first `maxLeaves` scalars in the order of the text, numbers as they are
 * written (which `JSON.parse` would lose), strings unescaped. Those whose path is too long count, but are not reported.
 * Nothing recurses, so no depth is too deep. Empty objects and arrays have no leaf. Returns false when the text is not JSON.
 */
export function walkJsonLeaves(
  text: string,
  maxLeaves: number,
  onLeaf: (path: string, value: string) => void,
): boolean {
  const open = new OpenContainers();
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
        open.push(path, isObject);
        const next = enter(text, at, open);
        if (next === null) return false;
        ({ at, path } = next);
        continue;
      }
    } else {
      const end = scalarEnd(text, at);
      if (end < 0) return false;
      if (path !== null) onLeaf(path, scalarValue(text, at, end));
      leaves += 1;
      if (leaves >= maxLeaves) return true;
      at = end;
    }
    // What follows a value: more of its container, or the end of one or several.
    for (;;) {
      at = skipSpace(text, at);
      if (open.isEmpty) return at === text.length;
      const mark = text.charAt(at);
      if (mark === ",") {
        const { frame } = open;
        if (frame !== null) frame.index += 1;
        const next = enter(text, skipSpace(text, at + 1), open);
        if (next === null) return false;
        ({ at, path } = next);
        break;
      }
      if (mark !== (open.isObject ? "}" : "]")) return false;
      open.pop();
      at += 1;
    }
  }
}

/** Moves to the next value of the innermost container, past its key. Null when that is not JSON. */
function enter(
  text: string,
  from: number,
  open: OpenContainers,
): { at: number; path: string | null } | null {
  const { frame } = open;
  if (!open.isObject)
    return { at: from, path: frame === null ? null : open.pathOf(String(frame.index)) };
  const end = text.charCodeAt(from) === QUOTE ? stringEnd(text, from) : -1;
  if (end < 0) return null;
  const colon = skipSpace(text, end);
  if (text.charAt(colon) !== ":") return null;
  const path = frame === null ? null : open.pathOf(escapeKey(scalarValue(text, from, end)));
  return { at: skipSpace(text, colon + 1), path };
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
    if (code !== BACKSLASH) continue;
    const end = escapeEnd(text, at);
    if (end < 0) return -1;
    at = end - 1;
  }
  return -1;
}

/** Index after the escape whose backslash is at `at`, or -1. */
function escapeEnd(text: string, at: number): number {
  const letter = text.charAt(at + 1);
  if (letter === "u") {
    HEX_DIGITS.lastIndex = at + 2;
    return HEX_DIGITS.test(text) ? HEX_DIGITS.lastIndex : -1;
  }
  return letter !== "" && '"\\/bfnrt'.includes(letter) ? at + 2 : -1;
}

function scalarValue(text: string, from: number, end: number): string {
  if (text.charCodeAt(from) !== QUOTE) return text.slice(from, end);
  const inner = text.slice(from + 1, end - 1);
  return inner.includes("\\") ? (JSON.parse(text.slice(from, end)) as string) : inner;
}
