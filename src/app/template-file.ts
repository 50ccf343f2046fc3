import { fileURLToPath } from "node:url";

/** The initialised empty embedded database that the build makes: a first start then takes a second, not six. */
export function templateFile(): string {
  return fileURLToPath(new URL("../../.cache/pglite-template.tgz", import.meta.url));
}
