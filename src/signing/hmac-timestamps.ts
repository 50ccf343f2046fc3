import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { findHeader } from "./request-header.ts";
import { parseUnixTime, readBodyTimestamp, refuseStale } from "./timestamp.ts";
import { refuse } from "./verdict.ts";

interface FoundTimestamp {
  readonly time: number;
  readonly text: string;
  readonly where: string;
}

export type Timestamps =
  | { readonly kind: "read"; readonly found: readonly FoundTimestamp[] }
  | { readonly kind: "refused"; readonly refusal: VerificationResult };

/**
 * Collects a request's timestamps: of the signature header, of their own header and, with `readBody`, of
 * the JSON body. Reading a body costs a parse, so it is left until the signature has proved to be genuine
 * unless the timestamp is part of what is signed.
 */
export function readTimestamps(
  request: VerificationRequest,
  settings: HmacSettings,
  ofSignatureHeader: string | null,
  readBody: "no" | "unverified" | "verified",
): Timestamps {
  const found: FoundTimestamp[] = [];
  if (ofSignatureHeader !== null) {
    const where = "The timestamp in the signature header";
    if (!collect(found, ofSignatureHeader, where)) return refuseMalformed(where, settings);
  }
  if (settings.timestampHeader !== null) {
    const where = settings.timestampHeader;
    const header = findHeader(request.headers, where.toLowerCase());
    if (header.kind === "many") {
      const message = `${where} was sent more than once: the sender must send it exactly once.`;
      return { kind: "refused", refusal: refuse("duplicate_timestamp_header", message) };
    }
    if (header.kind === "one" && !collect(found, header.value, where))
      return refuseMalformed(where, settings);
  }
  if (settings.timestampBodyField !== null && readBody !== "no") {
    const where = `The field ${settings.timestampBodyField} of the body`;
    const field = readBodyTimestamp(
      request.body,
      settings.timestampBodyField,
      readBody === "verified",
    );
    if (field.kind === "costly") {
      const message = `${where} is not read, since it is part of what was signed and the body is larger than 1 MiB or nested deeper than 256: let the sender put the time into a header (verification_config.timestamp_header).`;
      return { kind: "refused", refusal: refuse("malformed_timestamp", message) };
    }
    if (field.kind === "malformed") return refuseMalformed(where, settings);
    if (field.kind === "found" && !collect(found, field.text, where))
      return refuseMalformed(where, settings);
  }
  if (
    found.length === 0 &&
    !settings.timestampOptional &&
    isExpected(settings, readBody !== "no")
  ) {
    return { kind: "refused", refusal: refuseMissing(settings) };
  }
  return { kind: "read", found };
}

/** False when the text is not a Unix time. */
function collect(found: FoundTimestamp[], text: string, where: string): boolean {
  const time = parseUnixTime(text);
  if (time === null) return false;
  found.push({ time, text, where });
  return true;
}

/** Every timestamp that is there must be fresh: one of them may be unsigned, but never refreshes another. */
export function refuseUntimely(
  request: VerificationRequest,
  settings: HmacSettings,
  found: readonly FoundTimestamp[],
): VerificationResult | null {
  const { timestampUnit: unit, toleranceSeconds } = settings;
  for (const { time, where } of found) {
    const refusal = refuseStale(time, unit, request.nowMs, toleranceSeconds, where);
    if (refusal !== null) return refusal;
  }
  return null;
}

function isExpected(settings: HmacSettings, withBody: boolean): boolean {
  if (settings.timestampKey !== null || settings.timestampHeader !== null) return true;
  return settings.timestampBodyField !== null && withBody;
}

function refuseMissing(settings: HmacSettings): VerificationResult {
  const where = settings.timestampHeader ?? settings.timestampBodyField ?? settings.timestampKey;
  return refuse(
    "missing_timestamp",
    `The timestamp (${where}) is missing: does the sender send it? Set verification_config.timestamp_optional when it need not.`,
  );
}

function refuseMalformed(where: string, settings: HmacSettings): Timestamps {
  const unit = settings.timestampUnit === "s" ? "seconds" : "milliseconds";
  const message = `${where} is not a Unix time in whole ${unit}.`;
  return { kind: "refused", refusal: refuse("malformed_timestamp", message) };
}
