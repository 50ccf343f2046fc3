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
  const sources: { text: string; where: string }[] = [];
  if (ofSignatureHeader !== null) {
    sources.push({ text: ofSignatureHeader, where: "The timestamp in the signature header" });
  }
  if (settings.timestampHeader !== null) {
    const header = findHeader(request.headers, settings.timestampHeader.toLowerCase());
    if (header.kind === "many") {
      const message = `${settings.timestampHeader} was sent more than once: the sender must send it exactly once.`;
      return { kind: "refused", refusal: refuse("duplicate_timestamp_header", message) };
    }
    if (header.kind === "one") {
      sources.push({ text: header.value, where: settings.timestampHeader });
    }
  }
  if (settings.timestampBodyField !== null && readBody !== "no") {
    const where = `The field ${settings.timestampBodyField} of the body`;
    const field = readBodyTimestamp(
      request.body,
      settings.timestampBodyField,
      readBody === "verified",
    );
    if (field.kind === "malformed") return refuseMalformed(where, settings);
    if (field.kind === "found") sources.push({ text: field.text, where });
  }
  const found: FoundTimestamp[] = [];
  for (const source of sources) {
    const time = parseUnixTime(source.text);
    if (time === null) return refuseMalformed(source.where, settings);
    found.push({ ...source, time });
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

/** Every timestamp that is there must be fresh: one of them may be unsigned, but never refreshes another. */
export function refuseUntimely(
  request: VerificationRequest,
  settings: HmacSettings,
  ofSignatureHeader: string | null,
): VerificationResult | null {
  const timestamps = readTimestamps(request, settings, ofSignatureHeader, "verified");
  if (timestamps.kind === "refused") return timestamps.refusal;
  const { timestampUnit: unit, toleranceSeconds } = settings;
  for (const { time, where } of timestamps.found) {
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
