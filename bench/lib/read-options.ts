import { parseArgs } from "node:util";
import type { ParseArgsConfig } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;

/**
 * Returns the values of a bench's options. `--help` prints the usage and ends the process with 0; an unknown option, or anything
 * but a number where the default is one, says what is wrong above the usage and ends it with 2.
 */
export function readOptions<const T extends Options>(usage: string, options: T) {
  if (process.argv.includes("--help")) {
    console.log(usage);
    process.exit(0);
  }
  try {
    const { values } = parseArgs({ options });
    for (const [name, value] of Object.entries(values))
      checkNumber(name, value, options[name]?.default);
    return values;
  } catch (error) {
    return endWithUsage(usage, (error as Error).message);
  }
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
  throw new TypeError(`--${name} takes ${what}, not ${String(value)}`);
}

function isNumber(value: unknown): boolean {
  return typeof value === "string" && /^\d+(\.\d+)?$/.test(value);
}

function isNumbers(value: unknown): boolean {
  return typeof value === "string" && value.includes(",") && value.split(",").every(isNumber);
}
