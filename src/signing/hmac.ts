import type { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import type { HeaderList } from "../domain/event.ts";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { equalDigests } from "./constant-time.ts";
import { readSignatureHeader } from "./hmac-header.ts";
import { isTimestamped, parseHmac } from "./hmac-settings.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { readTimestamps, refuseUntimely } from "./hmac-timestamps.ts";
import { readKey } from "./key-material.ts";
import { mismatchHint, missingHeaderHint } from "./provider-hints.ts";
import { findHeader } from "./request-header.ts";
import { defineScheme } from "./scheme.ts";
import type { Scheme } from "./scheme.ts";
import { feedSignedPayload, rawPathOf, templateNames } from "./signed-payload.ts";
import type { SignedParts } from "./signed-payload.ts";
import { GENUINE, refuse } from "./verdict.ts";

export type HmacAlgorithm = "sha256" | "sha1";

const DIGEST_BYTES: Readonly<Record<HmacAlgorithm, number>> = { sha256: 32, sha1: 20 };

export const hmacSha256Scheme = hmacScheme("sha256");
export const hmacSha1Scheme = hmacScheme("sha1");

/** RFC 2104 over a template of the request; presets and Standard Webhooks are configurations of it. */
function hmacScheme(algorithm: HmacAlgorithm): Scheme {
  return defineScheme({
    parse: parseHmac,
    verify: (request, settings) => verifyHmac(algorithm, request, settings),
  });
}

function verifyHmac(
  algorithm: HmacAlgorithm,
  request: VerificationRequest,
  settings: HmacSettings,
): VerificationResult {
  const key = readKey(request.secret, settings.secretEncoding, settings.secretPrefix);
  if (!key.ok) return key.refusal;

  const found = findSignature(request, settings);
  if (found.kind === "refused") return found.refusal;
  if (request.body.byteLength === 0 && !settings.allowEmptyBody) {
    return refuse("empty_body", "The body is empty: this provider always sends one.");
  }
  const id = readId(request.headers, settings);
  if (typeof id !== "string") return id;

  const header = readSignatureHeader(found.value, settings, DIGEST_BYTES[algorithm]);
  if (header.kind !== "read") return refuseHeader(header.kind, found.name, settings);

  const timestamp = signedTimestamp(request, settings, header.timestamp);
  if (typeof timestamp !== "string") return timestamp;

  const digest = computeHmac(algorithm, key.key, settings, {
    body: request.body,
    timestamp,
    id,
    method: request.httpMethod,
    path: rawPathOf(request.url),
  });
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
  return refuseUntimely(request, settings, header.timestamp) ?? GENUINE;
}

/** HMAC of the template filled in; what signs a test webhook and what verifies are the same code. */
export function computeHmac(
  algorithm: HmacAlgorithm,
  key: Uint8Array,
  settings: HmacSettings,
  parts: SignedParts,
): Buffer {
  const hmac = createHmac(algorithm, key);
  feedSignedPayload(settings.template, parts, (bytes) => hmac.update(bytes));
  return hmac.digest();
}

/** The text in the place of {timestamp}: of the signature header, else of its own header, else of the body. */
function signedTimestamp(
  request: VerificationRequest,
  settings: HmacSettings,
  ofSignatureHeader: string | null,
): string | VerificationResult {
  if (!templateNames(settings.template, "timestamp")) return "";
  const isInBody = settings.timestampKey === null && settings.timestampHeader === null;
  const timestamps = readTimestamps(
    request,
    settings,
    ofSignatureHeader,
    isInBody ? "unverified" : "no",
  );
  if (timestamps.kind === "refused") return timestamps.refusal;
  return timestamps.found[0]?.text ?? "";
}

type Signature =
  | { readonly kind: "found"; readonly name: string; readonly value: string }
  | { readonly kind: "refused"; readonly refusal: VerificationResult };

function findSignature(request: VerificationRequest, settings: HmacSettings): Signature {
  for (const name of settings.headers) {
    const found = findHeader(request.headers, name.toLowerCase());
    if (found.kind === "one") return { kind: "found", name, value: found.value };
    if (found.kind === "many") {
      const message = `${name} was sent more than once: the sender, or a proxy in front, must send it exactly once.`;
      return { kind: "refused", refusal: refuse("duplicate_signature_header", message) };
    }
  }
  const names = settings.headers.join(" or ");
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
