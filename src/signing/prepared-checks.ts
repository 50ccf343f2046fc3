import type { VerificationRequest } from "../domain/verification.ts";
import { effectiveConfig } from "./presets.ts";
import { SCHEMES } from "./registry.ts";
import type { PreparedCheck } from "./scheme.ts";

/** Returns the check for a request's endpoint, prepared once per configuration object. */
export type PreparedChecks = (request: VerificationRequest) => PreparedCheck;

interface Entry {
  readonly provider: string;
  readonly method: string;
  readonly methodIsExplicit: boolean;
  readonly check: PreparedCheck;
}

/**
 * Caches checks by configuration object: reading settings and importing keys costs more than most checks, and an
 * endpoint's configuration stays the same object for as long as the caller's cache keeps it. A check lives as long as
 * that object.
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
    const check = SCHEMES[method].prepare(effectiveConfig(request));
    entries.set(config, { provider, method, methodIsExplicit, check });
    return check;
  };
}
