import { matchesCidr, parseCidrs } from "../domain/ip.ts";
import type { CidrList } from "../domain/ip.ts";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { clientAddressOf } from "./client-address.ts";
import { defineScheme } from "./scheme.ts";
import { readSettings } from "./settings-reader.ts";
import type { Config, Parsed } from "./settings-reader.ts";
import { GENUINE, refuse } from "./verdict.ts";

/** Settings of `ip_allowlist`; `allowed` is null when no addresses are configured, and then no request gets in. */
interface IpAllowlistSettings {
  readonly allowed: CidrList | null;
}

const MAX_ENTRIES = 1000;

/** Verification by source address (RFC 4632, RFC 4291); IPv4-mapped addresses count as IPv4. */
export const ipAllowlistScheme = defineScheme({ parse: parseIpAllowlist, verify: verifyAddress });

function parseIpAllowlist(config: Config): Parsed<IpAllowlistSettings> {
  return readSettings(config, ["allowed_ips"], (reader) => {
    const value = reader.raw("allowed_ips");
    if (value === undefined) return { allowed: null };
    if (!Array.isArray(value) || value.length > MAX_ENTRIES || !value.every(isText)) {
      const message = `must be a list of at most ${MAX_ENTRIES} IP addresses and CIDRs`;
      reader.fail("allowed_ips", message);
      return { allowed: null };
    }
    if (value.length === 0) return { allowed: null };
    try {
      return { allowed: parseCidrs(value) };
    } catch (error) {
      reader.fail("allowed_ips", error instanceof Error ? error.message : "cannot be read");
      return { allowed: null };
    }
  });
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function verifyAddress(
  request: VerificationRequest,
  settings: IpAllowlistSettings,
): VerificationResult {
  if (settings.allowed === null) {
    return refuse(
      "ip_allowlist_empty",
      "verification_config.allowed_ips is missing or empty: list the addresses the sender uses.",
    );
  }
  const address = clientAddressOf(request.remoteAddress, request.headers, request.trustedProxies);
  if (address === null) {
    return refuse(
      "ip_unknown",
      "The source address cannot be read: X-Forwarded-For holds something else than addresses; check the proxies in RELAY_TRUSTED_PROXIES.",
    );
  }
  if (matchesCidr(address, settings.allowed)) return GENUINE;
  return refuse(
    "ip_not_allowed",
    `${address} is not in verification_config.allowed_ips: add it if it is the sender's; if it is a proxy's of yours, add that to RELAY_TRUSTED_PROXIES.`,
  );
}
