import type { VerificationRequest } from "../domain/verification.ts";
import { effectiveConfig } from "./presets.ts";
import { SCHEMES } from "./registry.ts";
import type { PreparedCheck } from "./scheme.ts";

/** Hands out the check of a request's endpoint, read once per configuration object. */
export type PreparedChecks = (request: VerificationRequest) => PreparedCheck;

interface Entry {
  readonly provider: string;
  readonly method: string;
  readonly methodIsExplicit: boolean;
  readonly check: PreparedCheck;
}

/**
 * Reading settings (and importing keys) costs more than most checks, and an endpoint's configuration stays the same
 * object for as long as the cache above keeps it: what was read lives and dies with that object.
 */
export function makePreparedChecks(): PreparedChecks {
  const entries = new WeakMap<object, Entry>();
  return (request) => {
    const { provider, method, methodIsExplicit, config } = request;
    const known = entries.get(config);
    if (
      known !== undefined &&
      known.provider === provider &&
      known.method === method &&
      known.methodIsExplicit === methodIsExplicit
    ) {
      return known.check;
    }
    const effective = effectiveConfig(provider, method, methodIsExplicit, config);
    const check = SCHEMES[method].prepare(effective);
    entries.set(config, { provider, method, methodIsExplicit, check });
    return check;
  };
}
