import { isUtf8 } from "node:buffer";
import type { EventRecord } from "../../domain/event.ts";
import {
  escapeKey,
  isWithin,
  MAX_WRITTEN,
  MAX_FIELD_LENGTH,
  MAX_VALUE_LENGTH,
  SEPARATOR_BYTE,
} from "../../domain/searchable-leaf.ts";
import { nextTurn } from "../../domain/next-turn.ts";
import type { TokenList } from "../../domain/token-list.ts";
import { JsonLeaves } from "./json-leaves.ts";
import { LeafPath } from "./leaf-path.ts";

/** Number of leaves, from a payload's start, that are searchable by field. */
export const MAX_LEAVES = 2_000;

const FORM = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i;
const DECODER = new TextDecoder();
const BYTE_ORDER_MARK = Buffer.from("\uFEFF");

/**
 * A larger payload is walked in pieces of this size, in turns of the event loop: ten megabytes of containers without a leaf would block
 * the process for half a second.
 */
const PIECE_BYTES = 64 * 1024;

/**
 * Adds the tokens by which `field` and `value` find an event: at once, or for a large payload by the time that the returned promise
 * resolves.
 */
export type Tokenizer = (event: EventRecord, tokens: TokenList) => Promise<void> | undefined;

/**
 * Makes a tokenizer. Tokens come from the headers and from the leaves of a JSON or form-encoded payload. Bodies that are
 * neither, or not UTF-8, have no leaves; they are still found by free text.
 */
export function makeTokenizer(): Tokenizer {
  const path = new LeafPath();
  return (event, tokens) => {
    for (const [name, value] of event.headers)
      if (isWithin(value, MAX_VALUE_LENGTH)) addHeaderToken(tokens, name, value);
    const { body } = event;
    if (body.length === 0 || !isUtf8(body)) return undefined;
    const ofHeaders = tokens.ends.length;
    // JSON first, even when it is labelled as a form: curl labels everything so.
    const text = withoutMark(body);
    if (text.length > PIECE_BYTES)
      return addInTurns(text, tokens).then((isJson) => {
        if (!isJson) addFormInstead(event, tokens, ofHeaders);
      });
    const isJson = new JsonLeaves(text, MAX_LEAVES, tokens, path).walk(Infinity);
    if (isJson !== true) addFormInstead(event, tokens, ofHeaders);
    return undefined;
  };
}

/** Returns whether the text was JSON; ignore what was added when it was not. */
async function addInTurns(text: Uint8Array, tokens: TokenList): Promise<boolean> {
  const leaves = new JsonLeaves(text, MAX_LEAVES, tokens, new LeafPath());
  for (;;) {
    const isJson = leaves.walk(PIECE_BYTES);
    if (isJson !== null) return isJson;
    await nextTurn();
  }
}

function addHeaderToken(tokens: TokenList, name: string, value: string): void {
  tokens.byte(SEPARATOR_BYTE);
  tokens.lowerText(name);
  tokens.byte(SEPARATOR_BYTE);
  tokens.text(value);
  tokens.end();
}

function withoutMark(text: Uint8Array): Uint8Array {
  const hasMark = BYTE_ORDER_MARK.every((byte, index) => text[index] === byte);
  return hasMark ? text.subarray(BYTE_ORDER_MARK.length) : text;
}

/** Adds the pairs of a payload that is a form and not JSON, in place of what came behind the tokens of its headers. */
function addFormInstead(event: EventRecord, tokens: TokenList, ofHeaders: number): void {
  tokens.keepFirst(ofHeaders);
  if (FORM.test(event.contentType ?? "")) addFormTokens(DECODER.decode(event.body), tokens);
}

/** Adds a form's pairs. One that cannot be asked for (no path, or too long) is left out, but counts as a leaf. */
function addFormTokens(text: string, tokens: TokenList): void {
  // The constructor strips a leading "?"; a leading "&" prevents that, and adds no pair.
  const written = `&${writtenPairs(text).join("&")}`;
  for (const [name, value] of new URLSearchParams(written)) {
    const path = escapeKey(name);
    if (path === "" || !isWithin(path, MAX_FIELD_LENGTH) || !isWithin(value, MAX_VALUE_LENGTH))
      continue;
    tokens.text(path);
    tokens.byte(SEPARATOR_BYTE);
    tokens.text(value);
    tokens.end();
  }
}

/**
 * Returns the first pairs of a form, not decoded, without those that are too long to be asked for: decoding millions of pairs,
 * or one of megabytes, would block the process for seconds.
 */
function writtenPairs(text: string): string[] {
  const pairs: string[] = [];
  let leaves = 0;
  for (let from = 0; from < text.length && leaves < MAX_LEAVES;) {
    const next = text.indexOf("&", from);
    const end = next < 0 ? text.length : next;
    if (end > from) {
      leaves += 1;
      const pair = text.slice(from, end);
      const equals = pair.indexOf("=");
      const name = equals < 0 ? pair : pair.slice(0, equals);
      const value = equals < 0 ? "" : pair.slice(equals + 1);
      if (mayBeWithin(name, MAX_FIELD_LENGTH) && mayBeWithin(value, MAX_VALUE_LENGTH))
        pairs.push(pair);
    }
    from = end + 1;
  }
  return pairs;
}

/**
 * Returns false only for what is surely too long: `%XX` is at least a quarter of a code point, half of a surrogate pair a half,
 * any other unit one.
 */
function mayBeWithin(written: string, maxCharacters: number): boolean {
  if (written.length <= maxCharacters) return true;
  if (written.length > MAX_WRITTEN * maxCharacters) return false;
  let quarters = 0;
  for (let at = 0; at < written.length; at += 1) {
    const code = written.charCodeAt(at);
    if (code === 0x25) {
      quarters += 1;
      at += 2;
    } else quarters += code >= 0xd800 && code <= 0xdfff ? 2 : 4;
  }
  return quarters <= 4 * maxCharacters;
}
