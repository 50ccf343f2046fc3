// Makes the initialised, empty embedded database that a first start copies (1 s of CPU instead of 6 s).
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { templateFile } = await import("../dist/app/template-file.js");
const file = templateFile();
const hasEngine = await import("@electric-sql/pglite").then(
  () => true,
  () => false,
);
if (hasEngine && !existsSync(file)) {
  const { startEmbeddedPostgres } = await import("../dist/embedded/pglite/start.js");
  const dataDir = await mkdtemp(join(tmpdir(), "relay-template-"));
  const quiet = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };
  const postgres = await startEmbeddedPostgres({ dataDir, logger: quiet, templateFile: file });
  await postgres[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true, force: true });
}
