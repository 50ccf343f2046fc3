import type {
  RefusalReason,
  Verdict,
  VerificationRequest,
  VerificationResult,
} from "../../domain/verification.ts";
import { makePreparedChecks } from "../../signing/prepared-checks.ts";
import type { PreparedChecks } from "../../signing/prepared-checks.ts";
import { refuse } from "../../signing/verdict.ts";
import type { JwksSource } from "./jwks-cache.ts";
import { jwksUrlOf, makeReplaceJwksUrl } from "./fetched-jwks.ts";
import type { ReplaceJwksUrl } from "./fetched-jwks.ts";

/** What verification needs besides the request; made once per process with `makeVerifyPorts`. */
export interface VerifyPorts {
  readonly checks: PreparedChecks;
  /** Null when keys cannot be fetched: requests that need `jwks_url` are then refused. */
  readonly jwks: JwksSource | null;
  readonly replaceJwksUrl: ReplaceJwksUrl;
}

export function makeVerifyPorts(jwks: JwksSource | null): VerifyPorts {
  return { checks: makePreparedChecks(), jwks, replaceJwksUrl: makeReplaceJwksUrl() };
}

/** Verifies as ingest does, but without its pool: at once, or with a promise when keys must be fetched. */
export function verifyRequest(
  request: VerificationRequest,
  ports: VerifyPorts,
): VerificationResult | Promise<VerificationResult> {
  const jwksUrl = jwksUrlOf(request);
  return jwksUrl === null
    ? verifyNow(request, ports.checks)
    : verifyWithFetchedKeys(jwksUrl, request, ports, (prepared) =>
        verifyNow(prepared, ports.checks),
      );
}

/**
 * Decides whether a request is genuine, for ingest, the pool's workers and `relay verify`. Never throws, whatever the request
 * holds: on an unforeseen error it refuses. `jwks_url`, if any, must have been replaced by its keys.
 */
export function verifyNow(
  request: VerificationRequest,
  checks: PreparedChecks,
): VerificationResult {
  try {
    const check = checks(request);
    return check(request);
  } catch {
    return refuse(
      "internal_error",
      "The request could not be verified: an error in the relay, which refuses what it cannot verify.",
    );
  }
}

/** Refusals that a key made since the last fetch would explain. */
const NEW_KEY_REASONS: ReadonlySet<VerificationResult["reason"]> = new Set<RefusalReason>([
  "unknown_key_id",
  "no_suitable_key",
  "signature_mismatch",
]);

/**
 * Verifies with the keys of `jwksUrl` in its place, and once more with fresh keys when the sender may have rotated them.
 * `verify` may be the pool's: "unavailable" is passed through.
 */
export async function verifyWithFetchedKeys<Result extends Verdict>(
  jwksUrl: string,
  request: VerificationRequest,
  ports: VerifyPorts,
  verify: (prepared: VerificationRequest) => Result | Promise<Result>,
): Promise<Result | VerificationResult> {
  if (ports.jwks === null) return refuseUnfetched("this process does not fetch keys");
  const first = await ports.jwks.get(jwksUrl);
  if (!first.ok) return refuseUnfetched(first.message);
  const result = await verify(ports.replaceJwksUrl(request, first.jwks));
  if (result === "unavailable" || !NEW_KEY_REASONS.has(result.reason)) return result;
  const second = await ports.jwks.refresh(jwksUrl, first.jwks);
  if (!second.ok || second.jwks === first.jwks) return result;
  return verify(ports.replaceJwksUrl(request, second.jwks));
}

function refuseUnfetched(cause: string): VerificationResult {
  return refuse(
    "jwks_unavailable",
    `The sender's keys could not be fetched from verification_config.jwks_url: ${cause}.`,
  );
}
