import { decodeUtf8 } from "../domain/decode-utf8.ts";

/** Twilio sends a few dozen short parameters: a form beyond these limits is not Twilio's and only costs time. */
const MAX_FORM_BYTES = 256 * 1024;
const MAX_FORM_PARAMETERS = 2000;

/**
 * Returns what a form adds to Twilio's base string: parameters sorted by name, each name followed by its value, with
 * equal pairs once and several values of a name sorted (twilio-node `toFormUrlEncodedParam`). Returns null for a form
 * that is not valid UTF-8 percent-encoding or is too large.
 * https://www.twilio.com/docs/usage/security#validating-requests
 */
export function twilioFormText(body: Uint8Array): string | null {
  if (body.byteLength > MAX_FORM_BYTES) return null;
  const valuesByName = new Map<string, Set<string>>();
  const text = decodeUtf8(body);
  if (text === null) return null;
  const pairs = text.split("&");
  if (pairs.length > MAX_FORM_PARAMETERS) return null;
  for (const pair of pairs) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decodeFormText(equals < 0 ? pair : pair.slice(0, equals));
    const value = decodeFormText(equals < 0 ? "" : pair.slice(equals + 1));
    if (name === null || value === null) return null;
    const values = valuesByName.get(name);
    if (values === undefined) valuesByName.set(name, new Set([value]));
    else values.add(value);
  }
  let base = "";
  for (const name of [...valuesByName.keys()].sort()) {
    for (const value of [...(valuesByName.get(name) ?? [])].sort()) base += name + value;
  }
  return base;
}

function decodeFormText(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return null;
  }
}
