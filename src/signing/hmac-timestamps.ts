import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { findHeader } from "./request-header.ts";
import { templateNames } from "./signed-payload.ts";
import { parseUnixTime, readBodyTimestamp, refuseStale } from "./timestamp.ts";
import { refuse } from "./verdict.ts";

interface FoundTimestamp {
  readonly time: number;
  readonly text: string;
  readonly where: string;
}

interface Refused {
  readonly kind: "refused";
  readonly refusal: VerificationResult;
}

export type Timestamps =
  | { readonly kind: "read"; readonly found: readonly FoundTimestamp[] }
  | Refused;

/** A place that may hold a timestamp: its text, nothing, or the reason to refuse the request. */
type Source =
  | { readonly kind: "text"; readonly text: string; readonly where: string }
  | { readonly kind: "none" }
  | Refused;

const NONE: Source = { kind: "none" };

/**
 * Collects a request's timestamps: from the signature header, from their own header and, unless `readBody` is "no",
 * from the JSON body. Reading the body means parsing it, so it waits until the signature has proved genuine, unless the
 * timestamp is part of what is signed.
 */
export function readTimestamps(
  request: VerificationRequest,
  settings: HmacSettings,
  ofSignatureHeader: string | null,
  readBody: "no" | "unverified" | "verified",
): Timestamps {
  const header = readHeader(request, settings);
  if (header.kind === "refused") return header;
  const field = readBody === "no" ? NONE : readField(request, settings, readBody === "verified");
  if (field.kind === "refused") return field;
  const found: FoundTimestamp[] = [];
  if (ofSignatureHeader !== null) {
    const where = "The timestamp in the signature header";
    if (!collect(found, ofSignatureHeader, where)) return refuseMalformed(where, settings);
  }
  // As in Linear's own SDK, an unsigned header is ignored where the signed body holds the time.
  const isOverruled = field.kind === "text" && !templateNames(settings.template, "timestamp");
  if (header.kind === "text" && !isOverruled && !collect(found, header.text, header.where))
    return refuseMalformed(header.where, settings);
  if (field.kind === "text" && !collect(found, field.text, field.where))
    return refuseMalformed(field.where, settings);
  if (found.length === 0 && !settings.timestampOptional && isExpected(settings, readBody !== "no"))
    return { kind: "refused", refusal: refuseMissing(settings) };
  return { kind: "read", found };
}

function readHeader(request: VerificationRequest, { timestampHeader }: HmacSettings): Source {
  if (timestampHeader === null) return NONE;
  const header = findHeader(request.headers, timestampHeader.toLowerCase());
  if (header.kind === "one") return { kind: "text", text: header.value, where: timestampHeader };
  if (header.kind !== "many") return NONE;
  const message = `${timestampHeader} was sent more than once: the sender must send it exactly once.`;
  return { kind: "refused", refusal: refuse("duplicate_timestamp_header", message) };
}

function readField(
  request: VerificationRequest,
  settings: HmacSettings,
  isVerified: boolean,
): Source {
  if (settings.timestampBodyField === null) return NONE;
  const where = `The field ${settings.timestampBodyField} of the body`;
  const field = readBodyTimestamp(request.body, settings.timestampBodyField, isVerified);
  if (field.kind === "found") return { kind: "text", text: field.text, where };
  if (field.kind === "none") return NONE;
  if (field.kind === "malformed") return refuseMalformed(where, settings);
  const message = `${where} is not read, since it is part of what was signed and the body is larger than 1 MiB or nested deeper than 256: let the sender put the time into a header (verification_config.timestamp_header).`;
  return { kind: "refused", refusal: refuse("malformed_timestamp", message) };
}

/** Returns false when the text is not a Unix time. */
function collect(found: FoundTimestamp[], text: string, where: string): boolean {
  const time = parseUnixTime(text);
  if (time === null) return false;
  found.push({ time, text, where });
  return true;
}

/** Refuses a request unless all timestamps that count are fresh. */
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

function refuseMalformed(where: string, settings: HmacSettings): Refused {
  const unit = settings.timestampUnit === "s" ? "seconds" : "milliseconds";
  const message = `${where} is not a Unix time in whole ${unit}.`;
  return { kind: "refused", refusal: refuse("malformed_timestamp", message) };
}
