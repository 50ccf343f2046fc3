import { effectiveConfig } from "./presets.ts";
import type { VerificationSettings } from "./verification-settings.ts";

/** A setting that no request can carry; `message` never shows its value. */
export interface UnfitSetting {
  readonly field: string;
  readonly message: string;
}

/**
 * Headers that belong to one connection or say where a message ends (RFC 9110 §7.2, §7.6, §8.6, §10.1.1; RFC 9112 §6):
 * clients and proxies set, change and drop them, so that none carries a signature.
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
/** Settings whose text stands in a header of the request as it is. */
const TEXTS_IN_HEADERS: Readonly<
  Partial<Record<VerificationSettings["method"], readonly string[]>>
> = { hmac_sha256: HMAC_TEXTS, hmac_sha1: HMAC_TEXTS, bearer_token: ["scheme"] };

/** Of `field-value` (RFC 9110 §5.5), one character per byte: control characters but the tab, and what is no byte. */
const NOT_IN_A_HEADER = /[^\t\x20-\x7e\x80-\xff]/;
/** White space around a value is no part of it, and uWebSockets.js takes bytes beyond ASCII for such. */
const STARTS_LOST = /^[\t \x80-\xff]/;
const ENDS_LOST = /[\t \x80-\xff]$/;

/**
 * The first setting that cannot stand in a header as it is configured, or null: no sender could meet it, and the
 * test operation cannot send it.
 */
export function findUnfitSetting(settings: VerificationSettings): UnfitSetting | null {
  const { provider, method, methodIsExplicit, secret } = settings;
  const config = effectiveConfig(provider, method, methodIsExplicit, settings.config);
  for (const key of HEADER_SETTINGS) {
    const own = [config[key]].flat().find((name) => HTTP_OWN.has(String(name).toLowerCase()));
    if (own === undefined) continue;
    const message = "must not be a header that HTTP itself uses, such as Connection or Host";
    return { field: `verification_config.${key}`, message };
  }
  for (const key of TEXTS_IN_HEADERS[method] ?? []) {
    const text = config[key];
    if (typeof text === "string" && NOT_IN_A_HEADER.test(text)) return unfitText(key);
  }
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

function losesAnEnd(text: string): boolean {
  return STARTS_LOST.test(text) || ENDS_LOST.test(text);
}

function unfitText(key: string): UnfitSetting {
  const message = "must be characters that a header can carry";
  return { field: `verification_config.${key}`, message };
}
