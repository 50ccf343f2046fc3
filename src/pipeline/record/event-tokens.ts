import type { EventRecord } from "../../domain/event.ts";
import {
  escapeKey,
  headerToken,
  isWithin,
  MAX_FIELD_LENGTH,
  MAX_VALUE_LENGTH,
  payloadToken,
} from "../../domain/searchable-leaf.ts";
import { walkJsonLeaves } from "./json-leaves.ts";

/** `TextDecoder` with `fatal`: throws on bytes that are not UTF-8. */
export interface Utf8Decoder {
  decode(bytes: Uint8Array): string;
}

/** Leaves of a payload that are searchable by field, from its beginning. */
export const MAX_LEAVES = 2_000;

const FORM = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i;

/**
 * The tokens that `field` and `value` find an event by: its headers, and the leaves of a JSON or form-encoded
 * payload. Bodies that are neither, or not UTF-8, have no leaves; they are still found by free text.
 */
export function eventTokens(event: EventRecord, decoder: Utf8Decoder): readonly string[] {
  const tokens: string[] = [];
  for (const [name, value] of event.headers)
    if (isWithin(value, MAX_VALUE_LENGTH)) tokens.push(headerToken(name, value));
  if (event.body.length === 0) return tokens;
  const text = decode(event.body, decoder);
  if (text === null) return tokens;
  // JSON first, also when it is called a form: curl says so of everything.
  const leaves = jsonTokens(text) ?? (FORM.test(event.contentType ?? "") ? formTokens(text) : []);
  for (const leaf of leaves) tokens.push(leaf);
  return tokens;
}

/** What cannot be asked for (no path, or too long) is left out, but counts as a leaf. */
function isAskable(path: string, value: string): boolean {
  return path !== "" && isWithin(path, MAX_FIELD_LENGTH) && isWithin(value, MAX_VALUE_LENGTH);
}

/** Null for what is no JSON object or array. */
function jsonTokens(text: string): readonly string[] | null {
  if (!/^\s*[[{]/.test(text)) return null;
  const tokens: string[] = [];
  const isJson = walkJsonLeaves(text, MAX_LEAVES, (path, value) => {
    if (isAskable(path, value)) tokens.push(payloadToken(path, value));
  });
  return isJson ? tokens : null;
}

function formTokens(text: string): readonly string[] {
  const tokens: string[] = [];
  let leaves = 0;
  const first = firstPairs(text);
  // The constructor would take a leading "?" for a URL's.
  for (const [name, value] of new URLSearchParams(first.startsWith("?") ? `&${first}` : first)) {
    const path = escapeKey(name);
    if (isAskable(path, value)) tokens.push(payloadToken(path, value));
    leaves += 1;
    if (leaves >= MAX_LEAVES) break;
  }
  return tokens;
}

/** At least as many pairs as there may be leaves, where the text has them: millions of pairs would hold the process for a second. */
function firstPairs(text: string): string {
  let pairs = 0;
  for (let from = 0; pairs < MAX_LEAVES;) {
    const end = text.indexOf("&", from);
    if (end < 0) return text;
    if (end > from) pairs += 1;
    if (pairs === MAX_LEAVES) return text.slice(0, end);
    from = end + 1;
  }
  return text;
}

function decode(body: Uint8Array, decoder: Utf8Decoder): string | null {
  try {
    return decoder.decode(body);
  } catch {
    return null;
  }
}
