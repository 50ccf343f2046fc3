import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Returns the path of the initialised, empty embedded database that the build makes: with it a first start takes a
 * second, not six. It is named after the version of the engine that made it, since another may not read it.
 */
export function templateFile(): string {
  const name = `../../.cache/pglite-template-${engineVersion()}.tgz`;
  return fileURLToPath(new URL(name, import.meta.url));
}

/** Returns "none" where the engine is not installed; no template is made there. */
function engineVersion(): string {
  try {
    const engine = createRequire(import.meta.url).resolve("@electric-sql/pglite");
    const description = join(dirname(engine), "../package.json");
    return (JSON.parse(readFileSync(description, "utf8")) as { readonly version: string }).version;
  } catch {
    return "none";
  }
}
