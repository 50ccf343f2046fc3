import {
  isWithin,
  MAX_FIELD_WRITTEN,
  MAX_VALUE_LENGTH,
  MAX_VALUE_WRITTEN,
  SEPARATOR_BYTE,
} from "../../domain/searchable-leaf.ts";
import type { TokenList } from "../../domain/token-list.ts";
import { JsonScanner } from "./json-scanner.ts";
import { countCodePoints, unescapeInto } from "./json-unescape.ts";
import type { LeafPath } from "./leaf-path.ts";

const DECODER = new TextDecoder();
const OPENING_OBJECT = 0x7b;
const CLOSING_OBJECT = 0x7d;
const OPENING_ARRAY = 0x5b;
const CLOSING_ARRAY = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;

/**
 * Walks a JSON text, known to be UTF-8, and adds its first `maxLeaves` scalars in the order of the text: numbers as they are
 * written (which `JSON.parse` would lose), strings unescaped. Those that are too long to be asked for, or have no path, count
 * but are not added. Nothing recurses, so no depth is too deep. Empty objects and arrays have no leaf.
 */
export class JsonLeaves {
  readonly #json: JsonScanner;
  readonly #maxLeaves: number;
  readonly #tokens: TokenList;
  readonly #path: LeafPath;
  #leaves = 0;

  /** @param path serves no other walk until this one is over, and then the next */
  constructor(bytes: Uint8Array, maxLeaves: number, tokens: TokenList, path: LeafPath) {
    this.#json = new JsonScanner(bytes);
    this.#maxLeaves = maxLeaves;
    this.#tokens = tokens;
    this.#path = path;
    path.toRoot();
    this.#json.skipSpace();
  }

  /**
   * Walks on through `maxBytes`, and to the end of the value there. Returns null while there is more, then true, or false when the text
   * is not a JSON object or array; ignore what was added then.
   */
  walk(maxBytes: number): boolean | null {
    const json = this.#json;
    const path = this.#path;
    const restAt = json.at + maxBytes;
    if (path.isAtRoot && !isOpening(json.next)) return false;
    for (;;) {
      if (json.at >= restAt) return null;
      // One value, whose path is `path`.
      const first = json.next;
      if (isOpening(first)) {
        const isObject = first === OPENING_OBJECT;
        json.at += 1;
        json.skipSpace();
        if (json.next === closingOf(isObject)) json.at += 1;
        else {
          path.push(isObject);
          if (!enter(json, path)) return false;
          continue;
        }
      } else {
        if (!json.readScalar()) return false;
        if (path.isAskable && path.sizeBytes > 0) addLeaf(json, path, this.#tokens);
        this.#leaves += 1;
        if (this.#leaves >= this.#maxLeaves) return true;
      }
      // What follows a value: more of its container, or the end of one or more containers.
      for (;;) {
        json.skipSpace();
        if (path.isAtRoot) return json.next === -1;
        const mark = json.next;
        if (mark !== COMMA && mark !== closingOf(path.isInObject)) return false;
        json.at += 1;
        if (mark === COMMA) {
          json.skipSpace();
          if (!enter(json, path)) return false;
          break;
        }
        path.pop();
      }
    }
  }
}

/** Moves to the next value of the innermost container, past its key. Returns false when that is not JSON. */
function enter(json: JsonScanner, path: LeafPath): boolean {
  if (!path.isInObject) {
    path.toNextIndex();
    return true;
  }
  if (!json.readString()) return false;
  const { from, end, characters } = json;
  // Byte by byte, and only where the path can be asked for: decoding a million keys would block the process for seconds.
  if (path.isBeyond || end - from > MAX_FIELD_WRITTEN) path.toTooLong();
  else if (json.hasEscapes) {
    const sizeBytes = unescapeInto(KEY, json.bytes, from, end);
    path.toKey(KEY, 0, sizeBytes, countCodePoints(KEY, sizeBytes));
  } else path.toKey(json.bytes, from, end, characters);
  json.skipSpace();
  if (json.next !== COLON) return false;
  json.at += 1;
  json.skipSpace();
  return true;
}

/** One unescaped key as UTF-8; large enough, since an escape is never shorter than what it stands for. */
const KEY = Buffer.allocUnsafe(MAX_FIELD_WRITTEN);

function addLeaf(json: JsonScanner, path: LeafPath, tokens: TokenList): void {
  if (json.end - json.from > MAX_VALUE_WRITTEN) return;
  const text = json.hasEscapes ? textOf(json) : null;
  if (text === null ? json.characters > MAX_VALUE_LENGTH : !isWithin(text, MAX_VALUE_LENGTH))
    return;
  tokens.slice(path.bytes, 0, path.sizeBytes);
  tokens.byte(SEPARATOR_BYTE);
  if (text === null) tokens.slice(json.bytes, json.from, json.end);
  else tokens.text(text);
  tokens.end();
}

/** Returns the text of the string that was read last. */
function textOf({ bytes, from, end }: JsonScanner): string {
  return JSON.parse(DECODER.decode(bytes.subarray(from - 1, end + 1))) as string;
}

function isOpening(byte: number): boolean {
  return byte === OPENING_OBJECT || byte === OPENING_ARRAY;
}

function closingOf(isObject: boolean): number {
  return isObject ? CLOSING_OBJECT : CLOSING_ARRAY;
}
