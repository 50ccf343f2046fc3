import { isUtf8 } from "node:buffer";
import type { EventRecord } from "../../domain/event.ts";
import {
  escapeKey,
  isWithin,
  LONGEST_WRITTEN,
  MAX_FIELD_LENGTH,
  MAX_VALUE_LENGTH,
  SEPARATOR_BYTE,
} from "../../domain/searchable-leaf.ts";
import type { TokenList } from "../../domain/token-list.ts";
import { addJsonLeaves } from "./json-leaves.ts";
import type { LeafTools } from "./json-leaves.ts";
import { LeafPath } from "./leaf-path.ts";

/** Leaves of a payload that are searchable by field, from its beginning. */
export const MAX_LEAVES = 2_000;

const FORM = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i;
const BYTE_ORDER_MARK = Buffer.from("\uFEFF");

/** Adds the tokens that `field` and `value` find an event by. */
export type Tokenizer = (event: EventRecord, tokens: TokenList) => void;

/**
 * Tokens are made of the headers and of the leaves of a JSON or form-encoded payload. Bodies that are neither, or not UTF-8, have
 * no leaves; they are still found by free text.
 */
export function makeTokenizer(): Tokenizer {
  const tools: LeafTools = { path: new LeafPath(), decoder: new TextDecoder() };
  return (event, tokens) => {
    for (const [name, value] of event.headers)
      if (isWithin(value, MAX_VALUE_LENGTH)) addHeaderToken(tokens, name, value);
    const { body } = event;
    if (body.length === 0 || !isUtf8(body)) return;
    const ofHeaders = tokens.ends.length;
    // JSON first, also when it is called a form: curl says so of everything.
    if (addJsonLeaves(withoutMark(body), MAX_LEAVES, tokens, tools)) return;
    tokens.keepFirst(ofHeaders);
    if (FORM.test(event.contentType ?? "")) addFormTokens(tools.decoder.decode(body), tokens);
  };
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

/** What cannot be asked for (no path, or too long) is left out, but counts as a leaf. */
function addFormTokens(text: string, tokens: TokenList): void {
  // The constructor would take a leading "?" for a URL's, but no leading "&" for a pair.
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
 * The first pairs of a form as they are written, without those that are too long to be asked for: to decode millions of pairs, or
 * one of megabytes, would hold the process for seconds.
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

/** Each UTF-16 unit is half a code point or more, but for the twelve that write one as %XX. */
function mayBeWithin(written: string, maxCharacters: number): boolean {
  if (written.length <= maxCharacters) return true;
  if (written.length > LONGEST_WRITTEN * maxCharacters) return false;
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
