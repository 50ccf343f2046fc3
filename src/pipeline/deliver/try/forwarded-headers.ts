import type { HeaderList } from "../../../domain/event.ts";
import { trimOptionalSpace } from "../../../domain/optional-space.ts";
import { REDACTED } from "../../../domain/redacted.ts";

/** Original headers that are passed on under their own names. */
const ALLOWED = new Set([
  "content-type",
  "content-encoding",
  "content-language",
  "idempotency-key",
  "i-twilio-idempotency-token",
  "x-request-id",
]);
const ALLOWED_PREFIXES = [
  "x-github-",
  "x-gitlab-",
  "x-shopify-",
  "shopify-",
  "x-twilio-",
  "linear-",
  "stripe-",
  "x-event-",
  "x-webhook-",
  "ce-",
];
/** A provider's proof of origin travels only on request, a sender's credential not at all. */
const PROOF = /signature|hmac|token|secret|auth|password|passwd|api-?key|credential/;
/** Never forwarded, not even as the provider's signature: hop-by-hop (RFC 9110 section 7.6.1), credentials, forwarding, ours. */
const NEVER =
  /^(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|content-length|authorization|cookie|proxy-.*|forwarded|via|x-real-ip|x-forwarded-.*|webhook-(?:id|timestamp|signature)|user-agent|x-relay-.*)$/;
const SAFE_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
/** Excludes U+FFFD: nobody knows which bytes it stands for. */
const SAFE_VALUE = /^[\t\u0020-\u007e\u0080-\ufffc\ufffe\uffff]*$/;

/**
 * Returns the original headers that a delivery carries. `signatureHeaders` (lower case) are added unchanged if the destination
 * asks for the provider's own signature. What `Connection` names was meant for the next hop only.
 */
export function forwardedHeaders(
  original: HeaderList,
  signatureHeaders: readonly string[],
  forwardSignature: boolean,
): HeaderList {
  const nextHopOnly = namedByConnection(original);
  let hasContentType = false;
  return original.flatMap(([name, value]): HeaderList => {
    const lower = name.toLowerCase();
    if (lower === "content-type") {
      // Given two, one receiver would go by the first, as the relay does, and another by the last.
      if (hasContentType) return [];
      hasContentType = true;
    }
    // A credential that was redacted in the log is of no use to a receiver.
    if (nextHopOnly.has(lower) || value.endsWith(REDACTED)) return [];
    if (NEVER.test(lower) || !SAFE_NAME.test(lower) || !SAFE_VALUE.test(value)) return [];
    if (signatureHeaders.includes(lower)) return forwardSignature ? [[name, value]] : [];
    if (ALLOWED.has(lower)) return [[name, value]];
    const allowed = ALLOWED_PREFIXES.some((prefix) => lower.startsWith(prefix));
    return allowed && !PROOF.test(lower) ? [[name, value]] : [];
  });
}

/** Returns the names in lower case, without the content type: the body cannot be read without it (RFC 9110 section 7.6.1). */
function namedByConnection(headers: HeaderList): ReadonlySet<string> {
  const names = new Set<string>();
  for (const [name, value] of headers) {
    if (name.toLowerCase() !== "connection") continue;
    for (const option of value.split(",")) names.add(trimOptionalSpace(option).toLowerCase());
  }
  names.delete("content-type");
  return names;
}
