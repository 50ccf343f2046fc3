import { trimOptionalSpace } from "../domain/optional-space.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { decodeStrict } from "./strict-bytes.ts";
import { parseUnixTime } from "./timestamp.ts";

export type SignatureHeader =
  | {
      readonly kind: "read";
      /** Every well-formed signature in the header: a provider that is rotating its secret sends several. */
      readonly signatures: readonly Uint8Array[];
      /** As written after `timestamp_key`; null when there is none. */
      readonly timestamp: string | null;
    }
  | { readonly kind: "malformed" }
  /** There are signatures, but none under the configured key or prefix. */
  | { readonly kind: "unsupported" };

const MALFORMED: SignatureHeader = { kind: "malformed" };
const UNSUPPORTED: SignatureHeader = { kind: "unsupported" };

/** Parses a signature header. A signature whose length differs from the digest's is not well-formed. */
export function readSignatureHeader(
  value: string,
  settings: HmacSettings,
  digestBytes: number,
): SignatureHeader {
  switch (settings.headerFormat) {
    case "plain": {
      const signature = readSignature(value, settings, digestBytes);
      return signature === null
        ? MALFORMED
        : { kind: "read", signatures: [signature], timestamp: null };
    }
    case "list": {
      const entries = splitEntries(value, settings.listSeparator).filter((entry) => entry !== "");
      const ours = entries.filter((entry) => entry.startsWith(settings.prefix));
      if (ours.length === 0) return entries.length === 0 ? MALFORMED : UNSUPPORTED;
      return collect(ours, settings, digestBytes, null);
    }
    case "key_value":
      return readKeyValue(value, settings, digestBytes);
    default:
      return settings.headerFormat satisfies never;
  }
}

function readKeyValue(value: string, settings: HmacSettings, digestBytes: number): SignatureHeader {
  const { listSeparator, signatureKey, timestampKey } = settings;
  const signatures: string[] = [];
  let timestamp: string | null = null;
  for (let start = 0; start <= value.length;) {
    const next = value.indexOf(listSeparator, start);
    const end = next < 0 ? value.length : next;
    const entry = trimOptionalSpace(value.slice(start, end));
    start = end + listSeparator.length;
    const equals = entry.indexOf("=");
    if (equals <= 0) return MALFORMED;
    const key = entry.slice(0, equals);
    const rest = entry.slice(equals + 1);
    if (key === signatureKey) signatures.push(rest);
    else if (key === timestampKey) {
      // Two timestamps mean that two headers were joined: which one was signed is a guess.
      if (timestamp !== null || parseUnixTime(rest) === null) return MALFORMED;
      timestamp = rest;
    }
    if (next < 0) break;
  }
  if (settings.timestampKey !== null && timestamp === null && !settings.timestampOptional) {
    return MALFORMED;
  }
  return signatures.length === 0
    ? UNSUPPORTED
    : collect(signatures, settings, digestBytes, timestamp);
}

/** Collects the well-formed signatures. One is enough: the others may be of a future kind. */
function collect(
  texts: readonly string[],
  settings: HmacSettings,
  digestBytes: number,
  timestamp: string | null,
): SignatureHeader {
  const signatures = texts
    .map((text) => readSignature(text, settings, digestBytes))
    .filter((signature) => signature !== null);
  return signatures.length === 0 ? MALFORMED : { kind: "read", signatures, timestamp };
}

function readSignature(
  text: string,
  settings: HmacSettings,
  digestBytes: number,
): Uint8Array | null {
  if (!text.startsWith(settings.prefix)) return null;
  const bytes = decodeStrict(text.slice(settings.prefix.length), settings.encoding);
  return bytes !== null && bytes.byteLength === digestBytes ? bytes : null;
}

function splitEntries(value: string, separator: string): string[] {
  return value.split(separator).map(trimOptionalSpace);
}
