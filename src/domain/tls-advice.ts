import { codeOf } from "./thrown.ts";

/** Codes of a certificate from an authority that is not trusted, and of one that is its own authority. */
const UNTRUSTED: ReadonlySet<string> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
const NO_TLS = /wrong version number|before secure TLS connection was established/;

/**
 * Returns what to do about an error of a connection with TLS, or nothing where its message says enough. Codes are those of
 * https://nodejs.org/api/tls.html#x509-certificate-error-codes
 */
export function tlsAdvice(error: Error): readonly string[] {
  if (UNTRUSTED.has(codeOf(error) ?? ""))
    return ["trust its authority with NODE_EXTRA_CA_CERTS=/path/ca.pem"];
  if (NO_TLS.test(error.message)) return ["it may speak no TLS at this port"];
  return error.cause instanceof Error ? tlsAdvice(error.cause) : [];
}
