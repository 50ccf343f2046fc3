import { Buffer } from "node:buffer";
import type { VerificationResult } from "../domain/verification.ts";
import { refuse } from "./verdict.ts";

const MAX_DIGITS = 15;

/** Parses a short, whole, unsigned number, or returns null; `parseInt` would accept "1700000000abc". */
export function parseUnixTime(text: string): number | null {
  if (text.length === 0 || text.length > MAX_DIGITS) return null;
  let time = 0;
  for (let index = 0; index < text.length; index += 1) {
    const digit = text.charCodeAt(index) - 0x30;
    if (digit < 0 || digit > 9) return null;
    time = time * 10 + digit;
  }
  return time;
}

/**
 * Refuses a time further from now than the tolerance, in either direction; returns null for a fresh one. Seconds are
 * compared as whole seconds, as in the providers' libraries.
 */
export function refuseStale(
  time: number,
  unit: "s" | "ms",
  nowMs: number,
  toleranceSeconds: number,
  where: string,
): VerificationResult | null {
  if (toleranceSeconds === 0) return null;
  const now = unit === "s" ? Math.floor(nowMs / 1000) : nowMs;
  const tolerance = unit === "s" ? toleranceSeconds : toleranceSeconds * 1000;
  const age = now - time;
  if (age > tolerance) {
    return refuse(
      "timestamp_too_old",
      `${where} is more than ${toleranceSeconds} s old: the request was held up or is a replay; if the sender retries with old timestamps, raise verification_config.tolerance_seconds.`,
    );
  }
  if (-age > tolerance) {
    return refuse(
      "timestamp_too_new",
      `${where} is more than ${toleranceSeconds} s in the future: check the sender's clock and verification_config.timestamp_unit (${unit}).`,
    );
  }
  return null;
}

export type BodyTimestamp =
  | { readonly kind: "found"; readonly text: string }
  | { readonly kind: "none" }
  | { readonly kind: "malformed" }
  | { readonly kind: "costly" };

/** Until the signature is checked, anybody may have sent the body, so one that is costly to parse is not parsed. */
const MAX_UNVERIFIED_BYTES = 1024 * 1024;
/** JSON.parse takes tens of times as long for a megabyte of opening brackets as for a megabyte of other data. */
const MAX_UNVERIFIED_DEPTH = 256;

/** Reads the value at a key or dotted path of a JSON body. A body that is not JSON has none. */
export function readBodyTimestamp(
  body: Uint8Array,
  field: string,
  isVerified: boolean,
): BodyTimestamp {
  if (!isVerified && isCostly(body)) return { kind: "costly" };
  const value = valueAt(parseJson(body), field);
  if (value === undefined || value === null) return { kind: "none" };
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) {
    return { kind: "found", text: String(Math.floor(value)) };
  }
  return typeof value === "string" ? { kind: "found", text: value } : { kind: "malformed" };
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8"));
  } catch {
    return undefined;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

function isCostly(body: Uint8Array): boolean {
  if (body.byteLength > MAX_UNVERIFIED_BYTES) return true;
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < body.length; index += 1) {
    const byte = body[index];
    if (isInText) {
      if (byte === BACKSLASH) index += 1;
      else if (byte === QUOTE) isInText = false;
    } else if (byte === QUOTE) isInText = true;
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      if (depth > MAX_UNVERIFIED_DEPTH) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1;
  }
  return false;
}

function valueAt(root: unknown, field: string): unknown {
  if (isObjectOrList(root) && Object.hasOwn(root, field)) return root[field];
  let value = root;
  for (const key of field.split(".")) {
    if (!isObjectOrList(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

function isObjectOrList(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
