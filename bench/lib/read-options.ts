import { parseArgs } from "node:util";
import type { ParseArgsConfig } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;

/**
 * Returns the values of a bench's options. `--help` prints the usage and ends the process with 0; an unknown option, or anything
 * but a number where the default is one, says what is wrong above the usage and ends it with 2.
 */
export function readOptions<const T extends Options>(usage: string, options: T) {
  endIfHelp(usage);
  try {
    const { values } = parseArgs({ options });
    for (const [name, value] of Object.entries(values))
      checkNumber(`--${name}`, value, options[name]?.default);
    return values;
  } catch (error) {
    return endWithUsage(usage, (error as Error).message);
  }
}

/** Does the same for a bench that is given its numbers one after the other: returns them by name, each or its default. */
export function readNumbers<const Name extends string>(
  usage: string,
  byDefault: Readonly<Record<Name, string>>,
): Record<Name, string> {
  endIfHelp(usage);
  const given = process.argv.slice(2);
  const values: Record<Name, string> = { ...byDefault };
  try {
    for (const name of Object.keys(byDefault) as Name[]) {
      values[name] = given.shift() ?? byDefault[name];
      checkNumber(name, values[name], byDefault[name]);
    }
    if (given.length > 0) throw new TypeError(`too many arguments: ${given.join(" ")}`);
    return values;
  } catch (error) {
    return endWithUsage(usage, (error as Error).message);
  }
}

export function endIfHelp(usage: string): void {
  if (!process.argv.includes("--help")) return;
  console.log(usage);
  process.exit(0);
}

export function endWithUsage(usage: string, message: string): never {
  console.error(`${message}\n\n${usage}`);
  process.exit(2);
}

/** @throws {TypeError} when the default is a number, or several with commas between them, and the value is not */
function checkNumber(name: string, value: unknown, byDefault: unknown): void {
  if (!isNumber(byDefault) && !isNumbers(byDefault)) return;
  if (isNumber(value) || (isNumbers(byDefault) && isNumbers(value))) return;
  const what = isNumber(byDefault) ? "a number" : "numbers with commas between them";
  throw new TypeError(`${name} takes ${what}, not ${String(value)}`);
}

function isNumber(value: unknown): boolean {
  return typeof value === "string" && /^\d+(\.\d+)?$/.test(value);
}

function isNumbers(value: unknown): boolean {
  return typeof value === "string" && value.includes(",") && value.split(",").every(isNumber);
}
