import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import type { Config, Parsed, SettingProblem } from "./settings-reader.ts";
import { refuse } from "./verdict.ts";

/** A check whose configuration has been read: keep it for as long as that configuration lives. */
export type PreparedCheck = (request: VerificationRequest) => VerificationResult;

/** One verification method: how its configuration is read and how a request is checked. */
export interface Scheme {
  /** Returns the first problem of a configuration, or null. */
  check(config: Config): SettingProblem | null;
  /** Never throws on a wrong configuration: the check it returns then refuses and names the setting. */
  prepare(config: Config): PreparedCheck;
}

export function defineScheme<Settings>(parts: {
  readonly parse: (config: Config) => Parsed<Settings>;
  readonly verify: (request: VerificationRequest, settings: Settings) => VerificationResult;
}): Scheme {
  const { parse, verify } = parts;
  return definePreparedScheme({
    parse,
    prepare: (settings) => (request) => verify(request, settings),
  });
}

/** Defines a scheme that derives something from its settings once, such as keys, and keeps it with the check. */
export function definePreparedScheme<Settings>(parts: {
  readonly parse: (config: Config) => Parsed<Settings>;
  readonly prepare: (settings: Settings) => PreparedCheck;
}): Scheme {
  return {
    check(config) {
      const parsed = parts.parse(config);
      return parsed.ok ? null : parsed;
    },
    prepare(config) {
      const parsed = parts.parse(config);
      if (parsed.ok) return parts.prepare(parsed.settings);
      const refusal = refuseSetting(parsed);
      return () => refusal;
    },
  };
}

/** Refuses every request to an endpoint whose configuration is incomplete or wrong. */
function refuseSetting(problem: SettingProblem): VerificationResult {
  return problem.missing
    ? refuse("missing_config", `${problem.field} is missing: ${problem.message}`)
    : refuse("invalid_config", `${problem.field} is wrong: ${problem.message}`);
}
