import { parseHmac } from "./hmac-settings.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { effectiveConfig } from "./presets.ts";
import type { Config } from "./settings-reader.ts";
import { templateNames } from "./signed-payload.ts";
import { mayStandIn } from "./strict-bytes.ts";
import type { VerificationSettings } from "../domain/verification.ts";

/** A setting that no request can carry; `message` never shows its value. */
export interface UnfitSetting {
  readonly field: string;
  readonly message: string;
}

/**
 * Headers that belong to one connection or delimit a message (RFC 9110 §7.2, §7.6, §8.6, §10.1.1; RFC 9112 §6): clients
 * and proxies set, change and drop them, so none can carry a signature.
 */
const HTTP_OWN = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
const HEADER_SETTINGS = ["header", "timestamp_header", "id_header"] as const;

const HMAC_TEXTS = ["prefix", "timestamp_key", "signature_key", "list_separator"];
/** Settings whose text appears verbatim in a request header. */
const TEXTS_IN_HEADERS: Readonly<
  Partial<Record<VerificationSettings["method"], readonly string[]>>
> = { hmac_sha256: HMAC_TEXTS, hmac_sha1: HMAC_TEXTS, bearer_token: ["scheme"] };

/**
 * Characters that `field-value` does not allow (RFC 9110 §5.5), one per byte: controls except tab, and any that is not
 * a byte.
 */
const NOT_IN_A_HEADER = /[^\t\x20-\x7e\x80-\xff]/;
/** White space around a value is not part of it, and uWebSockets.js treats bytes beyond ASCII as white space. */
const STARTS_LOST = /^[\t \x80-\xff]/;
const ENDS_LOST = /[\t \x80-\xff]$/;

/**
 * Returns the first setting that cannot appear in a header as configured, or null. No sender could satisfy it, and the
 * test operation could not send it.
 */
export function findUnfitSetting(settings: VerificationSettings): UnfitSetting | null {
  const { method, secret } = settings;
  const config = effectiveConfig(settings);
  for (const key of HEADER_SETTINGS) {
    const own = [config[key]].flat().find((name) => HTTP_OWN.has(String(name).toLowerCase()));
    if (own === undefined) continue;
    const message = "must not be a header that HTTP itself uses, such as Connection or Host";
    return { field: `verification_config.${key}`, message };
  }
  for (const key of TEXTS_IN_HEADERS[method] ?? []) {
    const text = config[key];
    if (typeof text === "string" && NOT_IN_A_HEADER.test(text))
      return unfit(key, "must be characters that a header can carry");
  }
  const ofHmac = method === "hmac_sha256" || method === "hmac_sha1" ? findUnfitHmac(config) : null;
  if (ofHmac !== null) return ofHmac;
  const scheme = config["scheme"];
  const hasScheme = method === "bearer_token" || method === "jwt";
  if (hasScheme && typeof scheme === "string" && losesAnEnd(scheme)) {
    const message =
      "must not begin or end with white space, which is none of it, or beyond ASCII, which a header loses";
    return { field: "verification_config.scheme", message };
  }
  if (method !== "bearer_token" || secret === null) return null;
  if (NOT_IN_A_HEADER.test(secret))
    return {
      field: "secret",
      message: "must be characters that a header can carry: no line breaks, nothing beyond Latin-1",
    };
  return losesAnEnd(secret)
    ? {
        field: "secret",
        message: "must not begin or end with white space or beyond ASCII: a header loses it",
      }
    : null;
}

function findUnfitHmac(config: Config): UnfitSetting | null {
  const parsed = parseHmac(config);
  return parsed.ok ? (findSharedHeader(parsed.settings) ?? findCutText(parsed.settings)) : null;
}

/**
 * Finds a header configured for two purposes: a signature is not a timestamp and cannot cover the header it is in, and
 * one header cannot hold both id and timestamp.
 */
function findSharedHeader(settings: HmacSettings): UnfitSetting | null {
  const { headers, timestampHeader, idHeader, template } = settings;
  const isSame = (name: string | null, other: string | null | undefined): boolean =>
    name !== null && name.toLowerCase() === other?.toLowerCase();
  // The signature is in the first of these headers that the request has.
  const message = "must be another one than the first of header, which carries the signature";
  if (isSame(timestampHeader, headers[0])) return unfit("timestamp_header", message);
  if (templateNames(template, "id") && isSame(idHeader, headers[0]))
    return unfit("id_header", message);
  return isSame(idHeader, timestampHeader)
    ? unfit("id_header", "must be another one than timestamp_header")
    : null;
}

/** Finds a text that parsing the signature header would lose or cut, so that no signature would be found after it. */
function findCutText(settings: HmacSettings): UnfitSetting | null {
  const { headerFormat, listSeparator, prefix, signatureKey, timestampKey, encoding } = settings;
  if (headerFormat !== "key_value" && STARTS_LOST.test(prefix))
    return unfit("prefix", "must not begin with white space or beyond ASCII: a header loses it");
  if (headerFormat === "plain") return null;
  if (mayStandIn(encoding, listSeparator))
    return unfit(
      "list_separator",
      `must hold a character that no ${encoding} has: a signature would be cut at it`,
    );
  if (prefix.includes(listSeparator))
    return unfit("prefix", "must not hold the list_separator, which would cut it");
  if (headerFormat === "list") return null;
  if (listSeparator.includes("="))
    return unfit("list_separator", "must not hold the =, which stands behind each key");
  for (const [name, key] of [
    ["signature_key", signatureKey],
    ["timestamp_key", timestampKey ?? ""],
  ] as const)
    if (STARTS_LOST.test(key) || key.includes("=") || key.includes(listSeparator))
      return unfit(
        name,
        "must be what stands before the =, such as v1: without = and list_separator, and beginning with neither white space nor beyond ASCII",
      );
  return timestampKey === signatureKey
    ? unfit("timestamp_key", "must be another one than signature_key")
    : null;
}

function losesAnEnd(text: string): boolean {
  return STARTS_LOST.test(text) || ENDS_LOST.test(text);
}

function unfit(key: string, message: string): UnfitSetting {
  return { field: `verification_config.${key}`, message };
}
