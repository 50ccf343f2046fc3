import { createHash, createHmac } from "node:crypto";
import type { HeaderList } from "../domain/event.ts";
import { trimOptionalSpace } from "../domain/optional-space.ts";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { equalDigests } from "./constant-time.ts";
import { missingSecret } from "./key-material.ts";
import { DIGEST_BYTES } from "./keyed-hash.ts";
import type { HmacAlgorithm } from "./keyed-hash.ts";
import { mismatchHint, missingHeaderHint } from "./provider-hints.ts";
import { allHeaderValues, findHeader } from "./request-header.ts";
import { defineScheme } from "./scheme.ts";
import { readSettings } from "./settings-reader.ts";
import type { Config, Parsed } from "./settings-reader.ts";
import { decodeStrict } from "./strict-bytes.ts";
import { twilioFormText } from "./twilio-form.ts";
import { lastQueryValue, twilioUrlSpellings, withQueryOf } from "./twilio-url.ts";
import { GENUINE, refuse } from "./verdict.ts";

export interface TwilioSettings {
  readonly header: string;
  /** The URL as typed in at Twilio, when it differs from the endpoint's. */
  readonly url: string | null;
}

/** Twilio's libraries cannot check the signature of a SharedKey without it. */
export const SIGNATURE_SETTINGS_HEADER = "X-Twilio-Webhooks-Signature-Settings";

/**
 * HMAC over the URL and the sorted form parameters; other bodies are bound by their SHA-256 in the query. The digest is
 * SHA-1 with the account's auth token, and SHA-256 where a Webhooks Rule signs with a SharedKey.
 * https://www.twilio.com/docs/usage/webhooks/webhooks-security
 * https://www.twilio.com/docs/usage/webhooks/webhook-shared-keys
 */
export const twilioScheme = defineScheme({ parse: parseTwilio, verify: verifyTwilio });

export function parseTwilio(config: Config): Parsed<TwilioSettings> {
  return readSettings(config, ["header", "url"], (reader) => {
    const url = reader.optionalText("url");
    if (url !== null && !/^https?:\/\/[^/?#]+/i.test(url)) {
      reader.fail("url", "must be the whole URL as typed in at Twilio, with https://");
    }
    return {
      header: reader.headerName("header", "X-Twilio-Signature"),
      url,
    };
  });
}

function verifyTwilio(request: VerificationRequest, settings: TwilioSettings): VerificationResult {
  const { secret } = request;
  if (secret === null || secret === "") return missingSecret();
  const found = findHeader(request.headers, settings.header.toLowerCase());
  if (found.kind === "none") {
    const message = `${settings.header} is missing: ${missingHeaderHint(request.provider)}`;
    return refuse("missing_signature_header", message);
  }
  if (found.kind === "many") {
    const message = `${settings.header} was sent more than once: a proxy in front must pass it on exactly once.`;
    return refuse("duplicate_signature_header", message);
  }
  const signature = decodeStrict(found.value, "base64");
  const algorithm = signedAlgorithm(request.headers);
  if (signature === null || signature.byteLength !== DIGEST_BYTES[algorithm]) {
    const digest = algorithm === "sha1" ? "SHA-1" : "SHA-256";
    const message = `${settings.header} is not a whole ${digest} digest in base64: is the sender Twilio, and does it sign with the Auth Token or, where it sends ${SIGNATURE_SETTINGS_HEADER}, a SharedKey?`;
    return refuse("malformed_signature_header", message);
  }

  const urls = signedUrls(request, settings);
  const find = (formText: string): string | null =>
    findSignedUrl(signature, urls, (url) => signTwilio(secret, url, formText, algorithm));
  const isForm = isFormRequest(request);
  const form = isForm ? twilioFormText(request.body) : "";
  if (form === null) {
    const message =
      "The form cannot be read: it is not percent-encoded UTF-8, or larger than Twilio's.";
    return refuse("malformed_body", message);
  }
  const hasHash = urls.some((url) => lastQueryValue(url, "bodySHA256") !== null);
  const mayBeWithoutHash = isForm || request.body.byteLength === 0;
  if (!mayBeWithoutHash && !hasHash) {
    return refuse(
      "body_hash_missing",
      "The body is not a form and the URL has no bodySHA256, so nothing binds the body to the signature: does a proxy change Content-Type or drop the query?",
    );
  }
  if (form !== "" && find(form) !== null) return GENUINE;
  // Signed without parameters: where a hash was signed, the body must match it, even a form or an empty body.
  const matched = form === "" || hasHash ? find("") : null;
  if (matched === null) {
    const hint = mismatchHint(request.provider, secret);
    return refuse("signature_mismatch", `${settings.header} does not match the request: ${hint}.`);
  }
  const isWithoutHash = mayBeWithoutHash && lastQueryValue(matched, "bodySHA256") === null;
  return (isWithoutHash && form === "") || hasBodyHash(matched, request.body)
    ? GENUINE
    : refuse(
        "body_hash_mismatch",
        "The body is not the one Twilio signed (bodySHA256 in the URL): something on the way changes it.",
      );
}

/** Checks the body against the hash in the very URL that was signed: anywhere else, anybody could have written it. */
function hasBodyHash(signedUrl: string, body: Uint8Array): boolean {
  const claimed = decodeStrict(lastQueryValue(signedUrl, "bodySHA256") ?? "", "hex");
  return claimed !== null && equalDigests(claimed, createHash("sha256").update(body).digest());
}

function signedUrls(request: VerificationRequest, settings: TwilioSettings): string[] {
  if (settings.url === null) return twilioUrlSpellings(request.url);
  const bases = new Set([settings.url, withQueryOf(settings.url, request.url)]);
  return [...bases].flatMap(twilioUrlSpellings);
}

/** Returns whether the body is a form. With two Content-Types it is not: a receiver might read the other one. */
function isFormRequest(request: VerificationRequest): boolean {
  const types = allHeaderValues(request.headers, "content-type");
  const type = types.length === 1 ? (types[0] ?? "") : "";
  const [mediaType = ""] = type.split(";", 1);
  return trimOptionalSpace(mediaType).toLowerCase() === "application/x-www-form-urlencoded";
}

/** Finds the URL that was signed. All spellings are compared in full, so that timing does not reveal which one is right. */
function findSignedUrl(
  signature: Uint8Array,
  urls: readonly string[],
  sign: (url: string) => Uint8Array,
): string | null {
  let matched: string | null = null;
  for (const url of urls) {
    if (equalDigests(signature, sign(url))) matched ??= url;
  }
  return matched;
}

/**
 * Returns the algorithm that Twilio names beside a SharedKey's signature (`key=webhooks_sharedkey_…,algorithm=HMAC_SHA256`); without
 * that header, or with another name in it, the one of the auth token.
 */
function signedAlgorithm(headers: HeaderList): HmacAlgorithm {
  const found = findHeader(headers, SIGNATURE_SETTINGS_HEADER.toLowerCase());
  const isSha256 =
    found.kind === "one" && /(?:^|,)\s*algorithm\s*=\s*HMAC_SHA256\s*(?:,|$)/i.test(found.value);
  return isSha256 ? "sha256" : "sha1";
}

/** Returns the digest that Twilio puts into X-Twilio-Signature, before base64. */
export function signTwilio(
  secret: string,
  url: string,
  formText: string,
  algorithm: HmacAlgorithm,
): Uint8Array {
  return createHmac(algorithm, secret)
    .update(url + formText, "utf8")
    .digest();
}
