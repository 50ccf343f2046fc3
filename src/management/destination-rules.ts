import { MAX_SIGNING_SECRETS, type SigningSecret } from "../domain/destination.ts";
import type { DestinationRow } from "../domain/config-store.ts";
import { RelayError } from "../domain/errors.ts";

/** @throws {RelayError} `validation_error` unless both are set or both are null */
export function refuseHalfRateLimit(
  limit: Pick<DestinationRow, "rateLimitMax" | "rateLimitWindow">,
): void {
  if ((limit.rateLimitMax === null) === (limit.rateLimitWindow === null)) return;
  const [missing, other] =
    limit.rateLimitMax === null
      ? (["rate_limit_max", "rate_limit_window"] as const)
      : (["rate_limit_window", "rate_limit_max"] as const);
  throw new RelayError(
    "validation_error",
    `${missing}: must be set together with ${other}; set both to null for no limit`,
    { field: missing },
  );
}

/** Puts the new secret in front; the earlier ones keep signing for the overlap, so that receivers can switch. */
export function rotateSecrets(
  secrets: readonly SigningSecret[],
  secret: string,
  nowMs: number,
  overlapMs: number,
): readonly SigningSecret[] {
  const retiring = secrets
    .map((old) => ({ ...old, signsUntilMs: old.signsUntilMs ?? nowMs + overlapMs }))
    .filter((old) => old.signsUntilMs > nowMs);
  return [{ secret, signsUntilMs: null }, ...retiring].slice(0, MAX_SIGNING_SECRETS);
}
