/**
 * How single values of an event are searched for: each leaf of a payload and each header becomes one token,
 *
 *   payload   <path> NUL <value>          data.object.id NUL cus_1
 *   header    NUL <name> NUL <value>      NUL x-github-event NUL push
 *
 * A path joins keys and array indexes with dots. A dot inside a key is written `\.`, a backslash `\\`;
 * NUL inside a key is stored as `\0`, so that the first NUL of a payload token always ends its path.
 */
const SEPARATOR = "\0";
export const SEPARATOR_BYTE = 0;
const HEADER_PATH = /^headers\.(.+)$/s;
/** Prefix `payload.` of a payload path that would otherwise read as a header's, or as one with this prefix. */
const PAYLOAD_PREFIX = /^payload\.((?:payload\.)*headers\.)/;

/** Longest path and value that the API can ask for; longer ones are not made searchable. In characters (code points). */
export const MAX_FIELD_LENGTH = 256;
export const MAX_VALUE_LENGTH = 512;
/** Most bytes, or UTF-16 units, that JSON (two `\\uXXXX`) or a form (four `%XX`) takes to write one code point. */
export const MAX_WRITTEN = 12;
/** Whatever is longer than this as written is too long to be asked for, so need not be decoded. */
export const MAX_FIELD_WRITTEN = MAX_FIELD_LENGTH * MAX_WRITTEN;
export const MAX_VALUE_WRITTEN = MAX_VALUE_LENGTH * MAX_WRITTEN;

/** Returns whether a text has at most `maxCharacters` code points, counting them only where the UTF-16 length leaves it open. */
export function isWithin(text: string, maxCharacters: number): boolean {
  if (text.length <= maxCharacters) return true;
  if (text.length > 2 * maxCharacters) return false;
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters <= maxCharacters;
}

/** Escapes one key for use in a path. */
export function escapeKey(key: string): string {
  return /[.\\\0]/.test(key)
    ? key.replaceAll("\\", "\\\\").replaceAll(".", "\\.").replaceAll(SEPARATOR, "\\0")
    : key;
}

export function payloadToken(path: string, value: string): string {
  return path + SEPARATOR + value;
}

function headerToken(name: string, value: string): string {
  return SEPARATOR + asciiLower(name) + SEPARATOR + value;
}

/** Returns the token that `field` and `value` of a query ask for. A backslash that escapes nothing stands for itself. */
export function tokenOfField(field: string, value: string): string {
  const header = HEADER_PATH.exec(field)?.[1];
  if (header !== undefined) return headerToken(unescape(header), value);
  return payloadToken(canonicalPath(field.replace(PAYLOAD_PREFIX, "$1")), value);
}

// oxlint-disable-next-line no-control-regex -- all of ASCII
const ASCII = /^[\x00-\x7f]*$/;

/** Lower-cases only A–Z, as the store's `lower` does to bytes. */
export function asciiLower(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase();
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function canonicalPath(path: string): string {
  if (!path.includes("\\") && !path.includes(SEPARATOR)) return path;
  const keys: string[] = [];
  let key = "";
  for (let at = 0; at < path.length; at += 1) {
    const character = path.charAt(at);
    const next = path.charAt(at + 1);
    if (character === "\\" && (next === "." || next === "\\")) {
      key += next;
      at += 1;
    } else if (character === ".") {
      keys.push(key);
      key = "";
    } else key += character;
  }
  return [...keys, key].map(escapeKey).join(".");
}

function unescape(text: string): string {
  return text.replaceAll(/\\([.\\])/g, "$1");
}
