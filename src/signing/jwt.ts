import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { readAuthorization } from "./authorization.ts";
import { isHmacAlgorithm, verifyAsymmetricJwt, verifyHmacJwt } from "./jwt-algorithms.ts";
import type { AsymmetricJwtAlgorithm, JwtAlgorithm } from "./jwt-algorithms.ts";
import { refuseClaims } from "./jwt-claims.ts";
import { selectKeys } from "./jwt-keys.ts";
import { parseJwt } from "./jwt-settings.ts";
import type { JwtSettings } from "./jwt-settings.ts";
import { readToken } from "./jwt-token.ts";
import type { JwtToken } from "./jwt-token.ts";
import { isPublicKey, readKey } from "./key-material.ts";
import { defineScheme } from "./scheme.ts";
import { GENUINE, refuse } from "./verdict.ts";

/**
 * RFC 7519 tokens in compact form, following RFC 8725: the algorithm must be a configured one, each key serves only its
 * own type of algorithm, and keys that the token carries (jwk, x5c) are never looked at. Uses `node:crypto` rather than
 * a library: its checks are synchronous, support Ed448 and accept Ed25519 on Node 20 without a warning, and base64url
 * is decoded strictly. The tests compare with `jose`.
 */
export const jwtScheme = defineScheme({ parse: parseJwt, verify: verifyJwt });

const WORDS = {
  missing: "missing_token",
  duplicate: "duplicate_token",
  malformed: "malformed_token",
} as const;

function verifyJwt(request: VerificationRequest, settings: JwtSettings): VerificationResult {
  const found = readAuthorization(request.headers, settings.header, settings.scheme, WORDS);
  if (!found.ok) return found.refusal;
  const token = readToken(found.credentials);
  if (token === null) {
    const message = `${settings.header} holds no JWT in compact form (three parts of base64url): does the sender sign with a JWT?`;
    return refuse("malformed_token", message);
  }
  return (
    refuseTokenHeader(token, settings) ??
    refuseSignature(token, request, settings) ??
    refuseClaims(token.claims, request, settings) ??
    GENUINE
  );
}

function refuseTokenHeader(token: JwtToken, settings: JwtSettings): VerificationResult | null {
  const { header } = token;
  if (!settings.algorithms.some((algorithm) => algorithm === header["alg"])) {
    const message = `The token's algorithm is not in verification_config.algorithms (${settings.algorithms.join(", ")}): add it if the sender really signs with it.`;
    return refuse("alg_not_allowed", message);
  }
  if (header["crit"] !== undefined) {
    const message = "The token demands an extension (crit) that is not supported.";
    return refuse("unsupported_crit", message);
  }
  for (const name of ["jku", "x5u"]) {
    if (header[name] !== undefined) {
      const message = `The token names its own key source (${name}), which is never followed: set verification_config.jwks_url to it if it is the sender's.`;
      return refuse("unsupported_header", message);
    }
  }
  return null;
}

function refuseSignature(
  token: JwtToken,
  request: VerificationRequest,
  settings: JwtSettings,
): VerificationResult | null {
  const algorithm = token.header["alg"] as JwtAlgorithm;
  if (!isHmacAlgorithm(algorithm)) return refuseAsymmetric(token, algorithm, settings);
  // A public key must never become an HMAC key, not even through a careless list of algorithms.
  const hasPublicKey = settings.keySource.kind !== "secret" || isPublicKey(request.secret ?? "");
  if (hasPublicKey || !settings.algorithms.every(isHmacAlgorithm)) {
    const message = `${algorithm} is not accepted where public keys are configured: remove it from verification_config.algorithms, and give a public key as verification_config.public_key.`;
    return refuse("alg_not_allowed", message);
  }
  const key = readKey(request.secret, settings.secretEncoding, "");
  if (!key.ok) return key.refusal;
  return verifyHmacJwt(algorithm, key.key, token.input, token.signature)
    ? null
    : refuse("signature_mismatch", mismatchMessage("the endpoint's secret"));
}

function refuseAsymmetric(
  token: JwtToken,
  algorithm: AsymmetricJwtAlgorithm,
  settings: JwtSettings,
): VerificationResult | null {
  const { keySource } = settings;
  if (keySource.kind !== "keys") {
    const message = "The sender's keys could not be fetched from verification_config.jwks_url.";
    return refuse("jwks_unavailable", message);
  }
  const { kid } = token.header;
  const selected = selectKeys(keySource.keys, algorithm, typeof kid === "string" ? kid : null);
  switch (selected.kind) {
    case "unknown_key_id":
      return refuse(
        "unknown_key_id",
        "The token was made with a key (kid) that is neither configured nor at verification_config.jwks_url: add the sender's new key, or name the URL where it is.",
      );
    case "too_many_keys":
      return refuse(
        "unknown_key_id",
        `The token does not tell which of ${selected.count} configured keys it was made with: let the sender put the key's id (kid) into its tokens, and give the keys of verification_config different ones.`,
      );
    case "no_suitable_key":
      return refuse(
        "no_suitable_key",
        `None of the configured keys is one for ${algorithm}: check verification_config.public_key, jwks or jwks_url.`,
      );
    case "keys":
      return selected.keys.some((key) =>
        verifyAsymmetricJwt(algorithm, key, token.input, token.signature),
      )
        ? null
        : refuse("signature_mismatch", mismatchMessage("the configured public key"));
    default:
      return selected satisfies never;
  }
}

function mismatchMessage(key: string): string {
  return `The token's signature was not made with ${key}: compare it with the key the sender signs with.`;
}
