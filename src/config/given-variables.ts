import { UsageError } from "../domain/errors.ts";
import { isNearMiss, nearestName } from "./nearest-name.ts";
import { VARIABLE_NAMES } from "./variables.ts";

const STORE_VARIABLES = VARIABLE_NAMES.filter((name) =>
  /^(?:DATABASE|CLICKHOUSE|KAFKA)_/.test(name),
);

/** Letters of a part of a name that say which one is meant. */
const SHORTEST_PART = 3;

/**
 * Returns the relay's own variables that the environment sets.
 * @throws {UsageError} for a name that is none of them, or almost one
 */
export function givenVariables(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const given = withoutInjected(env);
  refuseUnknownNames(given);
  refuseMistypedStores(env);
  return given;
}

/**
 * Leaves out what Kubernetes injects for services (`<SERVICE>_SERVICE_HOST`, `<SERVICE>_PORT=tcp://…`) and variables
 * that are empty, which counts as unset.
 */
function withoutInjected(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || value === "" || !isOurs(name)) continue;
    if (name.endsWith("_PORT") && /^(tcp|udp|sctp):\/\//.test(value)) continue;
    if (
      /_SERVICE_(HOST|PORT)(_\w+)?$/.test(name) ||
      /_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?$/.test(name)
    )
      continue;
    given[name] = value;
  }
  return given;
}

function isOurs(name: string): boolean {
  return name.startsWith("RELAY_") || (VARIABLE_NAMES as readonly string[]).includes(name);
}

function refuseUnknownNames(given: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(given)) {
    if ((VARIABLE_NAMES as readonly string[]).includes(name)) continue;
    const meant = nearestVariable(name);
    const advice =
      meant === null ? "unset it (README.md lists the variables)" : `did you mean ${meant}?`;
    throw new UsageError(`unknown variable ${name}: ${advice}`);
  }
}

/**
 * Refuses a name that is almost a store variable's, which would otherwise silently mean an embedded store. Other names
 * without our prefix may be another program's, and so may this one where the right variable is set, even to nothing.
 */
function refuseMistypedStores(env: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || value === "" || isOurs(name)) continue;
    const meant = STORE_VARIABLES.find((known) => isNearMiss(name, known));
    if (meant === undefined || env[meant] !== undefined) continue;
    throw new UsageError(
      `unknown variable ${name}: did you mean ${meant}? (where it is another program's, set ${meant} to nothing)`,
    );
  }
}

/**
 * Returns the nearest variable, preferring one that contains the given name (`RELAY_PORT`), or null when none is near. Names are
 * compared without our prefix: not every variable has it, and adding it is the likeliest mistake (`RELAY_LOG_LEVEL`).
 */
function nearestVariable(name: string): string | null {
  const stem = withoutPrefix(name);
  const stems = VARIABLE_NAMES.map(withoutPrefix);
  const holding = stem.length < SHORTEST_PART ? [] : stems.filter((known) => known.includes(stem));
  const nearest = nearestName(stem, holding, Number.POSITIVE_INFINITY) ?? nearestName(stem, stems);
  return nearest === null ? null : (VARIABLE_NAMES[stems.indexOf(nearest)] ?? null);
}

function withoutPrefix(name: string): string {
  return name.replace(/^RELAY_/, "");
}
