import type { Buffer } from "node:buffer";
import type { HeaderList } from "../domain/event.ts";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { equalDigests } from "./constant-time.ts";
import { readSignatureHeader } from "./hmac-header.ts";
import { isTimestamped, parseHmac } from "./hmac-settings.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { readTimestamps, refuseUntimely } from "./hmac-timestamps.ts";
import type { Timestamps } from "./hmac-timestamps.ts";
import { readKey } from "./key-material.ts";
import { DIGEST_BYTES, KeyedHash, makeScratch } from "./keyed-hash.ts";
import type { HmacAlgorithm } from "./keyed-hash.ts";
import { mismatchHint, missingHeaderHint } from "./provider-hints.ts";
import { findHeader } from "./request-header.ts";
import { definePreparedScheme } from "./scheme.ts";
import type { PreparedCheck, Scheme } from "./scheme.ts";
import { rawPathOf, templateNames } from "./signed-payload.ts";
import { GENUINE, refuse } from "./verdict.ts";

export const hmacSha256Scheme = hmacScheme("sha256");
export const hmacSha1Scheme = hmacScheme("sha1");

/**
 * Makes a scheme for HMAC (RFC 2104) over a template of the request; presets and Standard Webhooks are configurations of it.
 */
function hmacScheme(algorithm: HmacAlgorithm): Scheme {
  const scratch = makeScratch();
  return definePreparedScheme({
    parse: parseHmac,
    prepare: (settings) => makeHmacCheck(algorithm, settings, scratch),
  });
}

/** One endpoint's settings, with what is derived from them once. */
interface HmacPlan {
  readonly settings: HmacSettings;
  readonly headers: readonly { readonly name: string; readonly lowerName: string }[];
  readonly digestBytes: number;
  readonly signsTimestamp: boolean;
  readonly signsPath: boolean;
}

function makeHmacCheck(
  algorithm: HmacAlgorithm,
  settings: HmacSettings,
  scratch: Buffer,
): PreparedCheck {
  const plan: HmacPlan = {
    settings,
    headers: settings.headers.map((name) => ({ name, lowerName: name.toLowerCase() })),
    digestBytes: DIGEST_BYTES[algorithm],
    signsTimestamp: templateNames(settings.template, "timestamp"),
    signsPath: templateNames(settings.template, "path"),
  };
  let latest: { readonly secret: string | null; readonly key: KeyedHash } | null = null;
  return (request) => {
    const { secret } = request;
    if (latest === null || latest.secret !== secret) {
      const read = readKey(secret, settings.secretEncoding, settings.secretPrefix);
      if (!read.ok) return read.refusal;
      latest = { secret, key: new KeyedHash(algorithm, read.key) };
    }
    return verifyHmac(request, plan, latest.key, scratch);
  };
}

function verifyHmac(
  request: VerificationRequest,
  plan: HmacPlan,
  key: KeyedHash,
  scratch: Buffer,
): VerificationResult {
  const { settings } = plan;
  const found = findSignature(request, plan);
  if (found.kind === "refused") return found.refusal;
  if (request.body.byteLength === 0 && !settings.allowEmptyBody) {
    return refuse("empty_body", "The body is empty: this provider always sends one.");
  }
  const id = readId(request.headers, settings);
  if (typeof id !== "string") return id;

  const header = readSignatureHeader(found.value, settings, plan.digestBytes);
  if (header.kind !== "read") return refuseHeader(header.kind, found.name, settings);

  const signed = plan.signsTimestamp ? signedTimestamps(request, settings, header.timestamp) : null;
  if (signed?.kind === "refused") return signed.refusal;

  const values = {
    body: request.body,
    timestamp: signed?.found[0]?.text ?? "",
    id,
    method: request.httpMethod,
    path: plan.signsPath ? rawPathOf(request.url) : "",
  };
  const digest = key.digest(settings.template, values, scratch);
  // Constant time: every candidate is compared in full, whether or not an earlier one matched.
  let isMatch = false;
  for (const signature of header.signatures) {
    isMatch = equalDigests(signature, digest) || isMatch;
  }
  if (!isMatch) {
    const hint = mismatchHint(request.provider, request.secret);
    return refuse("signature_mismatch", `${found.name} does not match the request: ${hint}.`);
  }
  if (!isTimestamped(settings)) return GENUINE;
  const all =
    signed !== null && settings.timestampBodyField === null
      ? signed
      : readTimestamps(request, settings, header.timestamp, "verified");
  if (all.kind === "refused") return all.refusal;
  return refuseUntimely(request, settings, all.found) ?? GENUINE;
}

/** Reads the timestamps that {timestamp} may stand for: from the signature header, else their own header, else the body. */
function signedTimestamps(
  request: VerificationRequest,
  settings: HmacSettings,
  ofSignatureHeader: string | null,
): Timestamps {
  const isInBody = settings.timestampKey === null && settings.timestampHeader === null;
  return readTimestamps(request, settings, ofSignatureHeader, isInBody ? "unverified" : "no");
}

type Signature =
  | { readonly kind: "found"; readonly name: string; readonly value: string }
  | { readonly kind: "refused"; readonly refusal: VerificationResult };

function findSignature(request: VerificationRequest, plan: HmacPlan): Signature {
  let first: Signature | null = null;
  for (const { name, lowerName } of plan.headers) {
    const found = findHeader(request.headers, lowerName);
    if (found.kind === "one") first ??= { kind: "found", name, value: found.value };
    if (found.kind === "many") {
      const message = `${name} was sent more than once: the sender, or a proxy in front, must send it exactly once.`;
      return { kind: "refused", refusal: refuse("duplicate_signature_header", message) };
    }
  }
  if (first !== null) return first;
  const names = plan.settings.headers.join(" or ");
  const message = `${names} is missing: ${missingHeaderHint(request.provider)}`;
  return { kind: "refused", refusal: refuse("missing_signature_header", message) };
}

function readId(headers: HeaderList, settings: HmacSettings): string | VerificationResult {
  if (settings.idHeader === null) return "";
  const found = findHeader(headers, settings.idHeader.toLowerCase());
  if (found.kind === "one" && found.value !== "") return found.value;
  if (found.kind === "many") {
    const message = `${settings.idHeader} was sent more than once: the sender must send it exactly once.`;
    return refuse("duplicate_id_header", message);
  }
  const message = `${settings.idHeader} is missing: is verification_config.id_header the header the sender puts the id in?`;
  return refuse("missing_id_header", message);
}

function refuseHeader(
  kind: "malformed" | "unsupported",
  name: string,
  settings: HmacSettings,
): VerificationResult {
  const prefix = settings.prefix === "" ? "" : `"${settings.prefix}" and then `;
  if (kind === "malformed") {
    return refuse(
      "malformed_signature_header",
      `${name} has no well-formed signature: expected ${prefix}a whole digest in ${settings.encoding}${settings.headerFormat === "plain" ? "" : `, in the format ${settings.headerFormat}`}; check that the sender signs with this method and that no proxy changes the header.`,
    );
  }
  const what =
    settings.headerFormat === "key_value"
      ? `key "${settings.signatureKey}"`
      : `prefix "${settings.prefix}"`;
  return refuse(
    "no_supported_signature",
    `${name} has no signature with ${what}: the sender signs with another scheme or version.`,
  );
}
