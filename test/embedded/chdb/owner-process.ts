import { startEmbeddedClickHouse } from "../../../src/embedded/chdb/start-embedded-clickhouse.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

// A process that owns an embedded store, to be killed by a test.
const dataDir = process.argv[2] ?? "";
const embedded = await startEmbeddedClickHouse({ dataDir, logger: makeSilentLogger() });
process.send?.({ url: embedded.url, pid: embedded.pid });
