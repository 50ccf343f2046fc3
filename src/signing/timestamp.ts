import { Buffer } from "node:buffer";
import type { VerificationResult } from "../domain/verification.ts";
import { refuse } from "./verdict.ts";

const UNIX_TIME = /^\d{1,15}$/;

/** Whole, unsigned and short: `parseInt` would take "1700000000abc". Null when it is not that. */
export function parseUnixTime(text: string): number | null {
  return UNIX_TIME.test(text) ? Number(text) : null;
}

/**
 * Refuses what is further from now than the tolerance, in either direction; null when it is fresh.
 * Seconds are compared as whole seconds, as the providers' libraries do.
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
  | { readonly kind: "malformed" };

/** The value at a key, or at a dotted path, of a JSON body. A body that is not JSON has none. */
export function readBodyTimestamp(body: Uint8Array, field: string): BodyTimestamp {
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

function valueAt(root: unknown, field: string): unknown {
  if (isRecord(root) && Object.hasOwn(root, field)) return root[field];
  let value = root;
  for (const key of field.split(".")) {
    if (!isRecord(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
