import { createHash } from "node:crypto";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { equalDigests } from "./constant-time.ts";
import type { JwtSettings } from "./jwt-settings.ts";
import type { JsonObject } from "./jwt-token.ts";
import { decodeStrict } from "./strict-bytes.ts";
import { refuse } from "./verdict.ts";

/** Checks the claims of a token whose signature is genuine (RFC 7519 §4.1); returns null when all hold. */
export function refuseClaims(
  claims: JsonObject,
  request: VerificationRequest,
  settings: JwtSettings,
): VerificationResult | null {
  return (
    refuseTimes(claims, request.nowMs / 1000, settings) ??
    refuseParties(claims, settings) ??
    refuseHashes(claims, request, settings)
  );
}

function refuseTimes(
  claims: JsonObject,
  nowSeconds: number,
  settings: JwtSettings,
): VerificationResult | null {
  // NumericDate may have a fraction (RFC 7519 §2).
  const { exp, nbf, iat } = claims;
  for (const [name, value] of Object.entries({ exp, nbf, iat })) {
    if (value !== undefined && (typeof value !== "number" || !Number.isFinite(value))) {
      return refuse("malformed_token", `The token's claim ${name} is not a number of seconds.`);
    }
  }
  const skew = settings.clockSkewSeconds;
  if (typeof exp === "number" && nowSeconds - skew >= exp) {
    const message = "The token has expired: does the sender make a new one for each request?";
    return refuse("token_expired", message);
  }
  if (typeof nbf === "number" && nowSeconds + skew < nbf) {
    const message = "The token is not valid yet: check the sender's clock.";
    return refuse("token_not_yet_valid", message);
  }
  if (settings.maxAgeSeconds === null) return null;
  if (typeof iat !== "number") {
    const message = "The token has no claim iat, which verification_config.max_age_seconds needs.";
    return refuse("missing_iat", message);
  }
  if (nowSeconds + skew < iat) {
    const message = "The token was issued in the future: check the sender's clock.";
    return refuse("token_not_yet_valid", message);
  }
  // Most issuers leave out fractions of a second.
  if (Math.floor(nowSeconds - iat) - skew > settings.maxAgeSeconds) {
    const message = `The token is older than ${settings.maxAgeSeconds} s (verification_config.max_age_seconds).`;
    return refuse("token_too_old", message);
  }
  return null;
}

function refuseParties(claims: JsonObject, settings: JwtSettings): VerificationResult | null {
  const { iss, aud } = claims;
  const { issuers, audiences } = settings;
  if (issuers !== null && !(typeof iss === "string" && issuers.includes(iss))) {
    const message =
      "The token's issuer (iss) is not verification_config.issuer: was it made by another sender?";
    return refuse("issuer_mismatch", message);
  }
  const heard: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  if (audiences !== null && !audiences.some((audience) => heard.includes(audience))) {
    const message =
      "The token's audience (aud) is not verification_config.audience: was it made for another receiver?";
    return refuse("audience_mismatch", message);
  }
  return null;
}

function refuseHashes(
  claims: JsonObject,
  request: VerificationRequest,
  settings: JwtSettings,
): VerificationResult | null {
  const { bodyHashClaim, urlHashClaim } = settings;
  if (bodyHashClaim !== null) {
    const claimed = ownClaim(claims, bodyHashClaim);
    if (claimed === undefined && request.body.byteLength > 0) {
      const message = `The token has no claim ${bodyHashClaim}, so nothing binds the body to it.`;
      return refuse("body_hash_missing", message);
    }
    if (claimed !== undefined && !isHashOf(claimed, request.body, settings)) {
      const message = `The token's claim ${bodyHashClaim} is not the hash of the body: something on the way changes it, or verification_config.body_hash_algorithm or body_hash_encoding is another than the sender's.`;
      return refuse("body_hash_mismatch", message);
    }
  }
  if (urlHashClaim === null) return null;
  const claimed = ownClaim(claims, urlHashClaim);
  if (claimed === undefined) {
    const message = `The token has no claim ${urlHashClaim}, so nothing binds the URL to it.`;
    return refuse("url_hash_missing", message);
  }
  if (isHashOf(claimed, request.url, settings)) return null;
  const message = `The token's claim ${urlHashClaim} is not the hash of the URL: the sender must use the endpoint's URL as the API shows it (RELAY_PUBLIC_INGEST_URL).`;
  return refuse("url_hash_mismatch", message);
}

function ownClaim(claims: JsonObject, name: string): unknown {
  return Object.hasOwn(claims, name) ? claims[name] : undefined;
}

/** Compares in constant time, like every digest. */
function isHashOf(claimed: unknown, data: Uint8Array | string, settings: JwtSettings): boolean {
  if (typeof claimed !== "string") return false;
  const bytes = decodeStrict(claimed, settings.hashEncoding);
  const hash = createHash(settings.hashAlgorithm).update(data).digest();
  return bytes !== null && equalDigests(bytes, hash);
}
