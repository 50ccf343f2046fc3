import { findUnfitSetting } from "./header-limits.ts";
import { ASYMMETRIC_ALGORITHMS, HMAC_ALGORITHMS, isHmacAlgorithm } from "./jwt-algorithms.ts";
import type { JwtAlgorithm } from "./jwt-algorithms.ts";
import { selectKeys } from "./jwt-keys.ts";
import type { VerificationKey } from "./jwt-keys.ts";
import { parseJwt } from "./jwt-settings.ts";
import { isPublicKey, readKey } from "./key-material.ts";
import { effectiveConfig } from "./presets.ts";
import { SCHEMES } from "./registry.ts";
import type { Config } from "./settings-reader.ts";
import { parseHmac } from "./hmac-settings.ts";
import type { SecretEncoding } from "./strict-bytes.ts";
import type { VerificationSettings } from "../domain/verification.ts";
import { isRecord } from "../domain/is-record.ts";

export type ConfigVerdict =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly field: string; readonly message: string };

/** Settings whose `config` is still as it came with the request: anything, or nothing at all. */
export type ConfigToValidate = Omit<VerificationSettings, "config"> & {
  readonly config: unknown;
};

const MAX_CONFIG_BYTES = 64 * 1024;

/**
 * Checks a `verification_config` when it is written. A missing or empty configuration is accepted: ingest then fails
 * closed and names the missing setting. Once anything is configured, everything the method requires must be there.
 * `field` is named as in the API: `secret`, `verification_config.allowed_ips`.
 */
export function validateVerificationConfig(input: ConfigToValidate): ConfigVerdict {
  const { method, secret } = input;
  const given = input.config ?? {};
  if (!isRecord(given)) return wrong("verification_config", "must be an object");
  if (Buffer.byteLength(JSON.stringify(given)) > MAX_CONFIG_BYTES) {
    return wrong("verification_config", `must be at most ${MAX_CONFIG_BYTES / 1024} KiB of JSON`);
  }
  const settings = { ...input, config: given };
  const config = effectiveConfig(settings);
  // Checked before what is missing: adding the key that these algorithms ask for would not help.
  if (method === "jwt" && mixesAlgorithms(config)) {
    const message =
      "must not mix HS algorithms with the others: a public key is no shared secret. Make an endpoint for each";
    return wrong("verification_config.algorithms", message);
  }
  const problem = SCHEMES[method].check(config);
  const isEmpty = Object.keys(given).length === 0;
  if (problem !== null && !(problem.missing && isEmpty)) {
    return wrong(problem.field, problem.message);
  }
  if (!isEmpty) {
    const mistake = refuseMethodRules(method, config);
    if (mistake !== null) return mistake;
  }
  const unfit = findUnfitSetting(settings);
  if (unfit !== null) return wrong(unfit.field, unfit.message);
  return refuseSecret(method, config, secret) ?? { ok: true, config: given };
}

/** Checks rules that apply only to writes: at ingest the same configurations fail closed by themselves. */
function refuseMethodRules(
  method: VerificationSettings["method"],
  config: Config,
): ConfigVerdict | null {
  if (method === "ip_allowlist") {
    const list = config["allowed_ips"];
    return Array.isArray(list) && list.length > 0
      ? null
      : wrong("verification_config.allowed_ips", "must list at least one address or CIDR");
  }
  const jwt = method === "jwt" ? parseJwt(config) : null;
  if (jwt === null || !jwt.ok) return null;
  const { algorithms, keySource } = jwt.settings;
  if (algorithms.some(isHmacAlgorithm) && keySource.kind !== "secret") {
    const message = "HS algorithms take the endpoint's secret, not public_key, jwks or jwks_url";
    return wrong("verification_config.algorithms", message);
  }
  if (keySource.kind === "keys" && !holdsKeyForAny(keySource.keys, algorithms)) {
    const field = Object.hasOwn(config, "jwks") ? "jwks" : "public_key";
    const message = `holds no key for ${algorithms.join(", ")}: every token would be refused`;
    return wrong(`verification_config.${field}`, message);
  }
  return null;
}

function holdsKeyForAny(
  keys: readonly VerificationKey[],
  algorithms: readonly JwtAlgorithm[],
): boolean {
  return algorithms.some(
    (algorithm) =>
      !isHmacAlgorithm(algorithm) && selectKeys(keys, algorithm, null).kind !== "no_suitable_key",
  );
}

function mixesAlgorithms(config: Config): boolean {
  const named = new Set<unknown>([config["algorithms"]].flat());
  return (
    HMAC_ALGORITHMS.some((algorithm) => named.has(algorithm)) &&
    ASYMMETRIC_ALGORITHMS.some((algorithm) => named.has(algorithm))
  );
}

/** Refuses a public key, and a secret that cannot be decoded, with which every webhook would be refused. */
function refuseSecret(
  method: VerificationSettings["method"],
  config: Config,
  secret: string | null,
): ConfigVerdict | null {
  if (secret === null) return null;
  const rule = secretRuleOf(method, config);
  if (rule === null) return null;
  if (isPublicKey(secret))
    return wrong(
      "secret",
      "must not be a public key, with which anybody could sign: with method jwt it is given as verification_config.public_key",
    );
  if (readKey(secret, rule.encoding, rule.prefix).ok) return null;
  if (secret === rule.prefix)
    return wrong("secret", "must hold more than verification_config.secret_prefix");
  return wrong("secret", `must be ${rule.encoding}, as verification_config.secret_encoding says`);
}

interface SecretRule {
  readonly encoding: SecretEncoding;
  readonly prefix: string;
}

function secretRuleOf(method: VerificationSettings["method"], config: Config): SecretRule | null {
  if (method === "hmac_sha256" || method === "hmac_sha1") {
    const parsed = parseHmac(config);
    if (!parsed.ok) return null;
    return { encoding: parsed.settings.secretEncoding, prefix: parsed.settings.secretPrefix };
  }
  const jwt = method === "jwt" ? parseJwt(config) : null;
  return jwt?.ok === true && jwt.settings.keySource.kind === "secret"
    ? { encoding: jwt.settings.secretEncoding, prefix: "" }
    : null;
}

function wrong(field: string, message: string): ConfigVerdict {
  return { ok: false, field, message };
}
