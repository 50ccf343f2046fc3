import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The initialised empty embedded database that the build makes: a first start then takes a second, not six. Named by the engine that
 * made it: another version may not read it.
 */
export function templateFile(): string {
  const name = `../../.cache/pglite-template-${engineVersion()}.tgz`;
  return fileURLToPath(new URL(name, import.meta.url));
}

/** "none" where the engine is not installed, and nothing is made. */
function engineVersion(): string {
  try {
    const engine = createRequire(import.meta.url).resolve("@electric-sql/pglite");
    const description = join(dirname(engine), "../package.json");
    return (JSON.parse(readFileSync(description, "utf8")) as { readonly version: string }).version;
  } catch {
    return "none";
  }
}
