import { startEmbeddedPostgres } from "../../src/embedded/pglite/start.ts";
import { PGLITE_TEMPLATE } from "./postgres.ts";
import { silentLogger } from "./silent-logger.ts";

/** A process that serves the embedded PostgreSQL of a directory until it is killed. */
const dataDir = process.argv[2];
if (dataDir === undefined) throw new Error("usage: postgres-child <data directory>");
await startEmbeddedPostgres({ dataDir, logger: silentLogger, templateFile: PGLITE_TEMPLATE });
process.send?.("ready");
