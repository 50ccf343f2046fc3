import type { Provider, VerificationMethod } from "./enums.ts";
import type { HeaderList } from "./event.ts";

/** How an endpoint's requests are verified. */
export interface VerificationSettings {
  readonly provider: Provider;
  readonly method: VerificationMethod;
  /** True when the method was set explicitly: a known provider's preset then does not apply. */
  readonly methodIsExplicit: boolean;
  /** Clear text, in memory only. */
  readonly secret: string | null;
  /** The stored `verification_config`; `{}` when none was given. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** Everything that decides whether a request is genuine. Nothing else may influence it. */
export interface VerificationRequest extends VerificationSettings {
  /** Public base URL + raw request target: what URL-signing providers signed. Never made from `Host`. */
  readonly url: string;
  readonly httpMethod: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array;
  readonly nowMs: number;
  /** Address of the peer as the socket reports it. */
  readonly remoteAddress: string;
  /** CIDRs of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly string[];
}

/** Machine-readable reasons of a refusal, carried beside the text for humans by logs, metrics and `relay verify`. */
export type RefusalReason =
  | "missing_config"
  | "invalid_config"
  | "missing_secret"
  | "malformed_secret"
  | "missing_signature_header"
  | "duplicate_signature_header"
  | "malformed_signature_header"
  | "no_supported_signature"
  | "signature_mismatch"
  | "missing_id_header"
  | "duplicate_id_header"
  | "missing_timestamp"
  | "duplicate_timestamp_header"
  | "malformed_timestamp"
  | "timestamp_too_old"
  | "timestamp_too_new"
  | "empty_body"
  | "malformed_body"
  | "body_hash_missing"
  | "body_hash_mismatch"
  | "url_hash_missing"
  | "url_hash_mismatch"
  | "missing_authorization"
  | "duplicate_authorization"
  | "malformed_authorization"
  | "credentials_mismatch"
  | "missing_token"
  | "duplicate_token"
  | "malformed_token"
  | "alg_not_allowed"
  | "unsupported_crit"
  | "unsupported_header"
  | "unknown_key_id"
  | "no_suitable_key"
  | "jwks_unavailable"
  | "token_expired"
  | "token_not_yet_valid"
  | "token_too_old"
  | "missing_iat"
  | "issuer_mismatch"
  | "audience_mismatch"
  | "ip_unknown"
  | "ip_not_allowed"
  | "ip_allowlist_empty"
  | "internal_error";

/** `message` tells the operator what to do and holds no secret, credential or expected digest. */
export interface Refusal {
  readonly valid: false;
  readonly reason: RefusalReason;
  readonly message: string;
}

export type VerificationResult =
  | { readonly valid: true; readonly reason: "ok"; readonly message: null }
  | Refusal;

/** What verification came to. `unavailable`: nothing was decided (no room, no time, a lost worker), which is answered 503. */
export type Verdict = VerificationResult | "unavailable";
