import { errors } from "undici";
import { codeOf } from "../../domain/thrown.ts";
import { ReceiverRefusedError } from "./receiver-guard.ts";

/** No connection was made: no byte of the request was sent. */
export class ConnectFailedError extends Error {
  readonly code = "connect_failed";
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = "ConnectFailedError";
  }
}

const REASONS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "TLS certificate has expired",
  CERT_NOT_YET_VALID: "TLS certificate is not valid yet",
  CERT_REVOKED: "TLS certificate is revoked",
  CERT_UNTRUSTED: "TLS certificate is not trusted",
  DEPTH_ZERO_SELF_SIGNED_CERT: "TLS certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "TLS certificate chain is self-signed",
  UNABLE_TO_GET_ISSUER_CERT: "TLS certificate is from an unknown authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "TLS certificate is from an unknown authority",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "TLS certificate cannot be verified: is an intermediate certificate missing?",
  ERR_TLS_CERT_ALTNAME_INVALID: "TLS certificate is for another host name",
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: "receiver does not speak HTTP/1.1 over TLS",
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: "receiver speaks neither TLS 1.2 nor 1.3",
  ECONNREFUSED: "connection refused",
  ETIMEDOUT: "receiver host did not accept the connection in time",
  ECONNRESET: "connection reset by the receiver",
  EHOSTUNREACH: "receiver host is unreachable",
  ENETUNREACH: "receiver network is unreachable",
  ENOTFOUND: "receiver host name does not resolve",
  ENODATA: "receiver host name has no address",
  EAI_AGAIN: "DNS did not answer",
  ETIMEOUT: "DNS did not answer",
  ESERVFAIL: "DNS server failed to resolve the receiver host name",
  EREFUSED: "DNS server refused to resolve the receiver host name",
  EPIPE: "connection closed by the receiver",
  UND_ERR_SOCKET: "connection closed by the receiver before its answer was complete",
  ERR_ASSERTION: "response is not valid HTTP", // undici's parser met what it took for impossible.
  UND_ERR_HEADERS_OVERFLOW: "response headers are too large",
  // undici's code for every fault of an answer that has a Content-Length.
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH:
    "response is not valid HTTP, or not as long as its Content-Length",
  overhead: "response has no end: its status line, headers or empty lines go on and on",
  too_many_interim: "too many interim (1xx) responses before the answer",
};

/** undici's message for a 101 that was not asked for. */
const BAD_UPGRADE = "bad upgrade";

/** Returns whether the receiver's certificate is bad (or it speaks no TLS at all), which does not change from one moment to the next. */
export function isCertificateFault(error: unknown): boolean {
  const code = codeOf(error);
  return (
    code !== null &&
    (REASONS[code]?.startsWith("TLS certificate") === true ||
      code.startsWith("ERR_SSL_") ||
      code === "EPROTO")
  );
}

/** Returns one line for the customer that says why there is no response. */
export function failureReason(error: unknown): string {
  if (error instanceof ReceiverRefusedError) return error.message;
  if (error instanceof ConnectFailedError) return failureReason(error.cause);
  // Happy eyeballs failed on every address: the first one speaks for all.
  if (error instanceof AggregateError && error.errors.length > 0)
    return failureReason(error.errors[0]);
  const code = codeOf(error);
  if (code === "UND_ERR_SOCKET" && error instanceof Error && codeOf(error.cause) !== null)
    return failureReason(error.cause);
  if (code === "UND_ERR_SOCKET" && error instanceof Error && error.message === BAD_UPGRADE)
    return "receiver switched to another protocol (101) instead of an answer";
  if (code !== null && REASONS[code] !== undefined) return REASONS[code];
  if (error instanceof errors.HTTPParserError) return "response is not valid HTTP";
  if (code?.startsWith("ERR_SSL_") === true || code === "EPROTO") return "TLS handshake failed";
  if (error instanceof Error && /TLS|SSL|disconnected before secure/i.test(error.message))
    return "TLS handshake failed";
  return `request failed${code === null ? "" : ` (${code})`}`;
}
