import { chmod, rm } from "node:fs/promises";
import { connect } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { UsageError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";
import { messageOf } from "../../domain/thrown.ts";
import { notLoaded } from "../not-loaded.ts";
import { startAnalyses } from "./analyses.ts";
import { startCheckpoints } from "./checkpoints.ts";
import { openDatabaseFiles } from "./database-files.ts";
import { simpleQuery } from "./messages.ts";
import type { FromPostgresThread, PostgresThreadData } from "./protocol.ts";
import { makeSessionGate } from "./session-gate.ts";

/** Connections beyond this are refused; each process uses a handful. */
const MAX_CONNECTIONS = 64;

/** The thread of the embedded PostgreSQL: its engine computes, reads and writes files synchronously, which no webhook should wait for. */
const port = parentPort!;

async function serve(data: PostgresThreadData): Promise<AsyncDisposable> {
  const logger = makeLogger();
  const { PGLiteSocketServer, ...engine } = await loadEngine();
  const onPanic = (reason: string): void => {
    // By itself it would go on, answer nothing or never return: another thread recovers from the log.
    logger.error({ reason }, "pglite.panicked");
    process.exit(1);
  };
  const database = await openDatabaseFiles({ ...engine, onPanic }, { ...data, logger });
  const server = new PGLiteSocketServer({
    db: makeSessionGate(database, {
      maxIdleMs: data.maxIdleMs,
      onGivenUp: () => {
        logger.warn({ maxIdleMs: data.maxIdleMs }, "pglite.transaction_given_up");
        lookAtQueue(data.path);
      },
    }),
    path: data.path,
    maxConnections: MAX_CONNECTIONS,
  });
  try {
    await server.start();
    await chmod(data.path, 0o600);
  } catch (error) {
    await database.close();
    throw error;
  }
  const checkpoints = startCheckpoints({ database, everyMs: data.checkpointEveryMs, logger });
  const analyses = startAnalyses({ database, everyMs: data.analyzeEveryMs, logger });
  return {
    async [Symbol.asyncDispose]() {
      await analyses[Symbol.asyncDispose]();
      await checkpoints[Symbol.asyncDispose]();
      await server.stop();
      await database.close();
      await rm(data.path, { force: true });
    },
  };
}

/** Lets the connections go on that waited for a transaction that was given up: the server looks at its queue only when a message comes. */
function lookAtQueue(path: string): void {
  const socket = connect(path);
  socket.on("error", () => undefined);
  socket.resume().end(simpleQuery("SELECT 1"));
}

async function loadEngine() {
  try {
    const [{ PGlite }, { NodeFS }, { PGLiteSocketServer }] = await Promise.all([
      import("@electric-sql/pglite"),
      import("@electric-sql/pglite/nodefs"),
      import("@electric-sql/pglite-socket"),
    ]);
    return { PGlite, NodeFS, PGLiteSocketServer };
  } catch (error) {
    throw notLoaded("PostgreSQL", "DATABASE_URL", error);
  }
}

/** Lines go to the logger of whoever started the thread; of an error the message, since not all that the engine throws can be sent. */
function makeLogger(): Logger {
  const at =
    (level: "debug" | "info" | "warn" | "error") =>
    (fields: object, message: string): void => {
      const sent = "err" in fields ? { ...fields, err: messageOf(fields.err) } : fields;
      tell({ kind: "log", level, fields: sent, message });
    };
  const logger: Logger = {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => logger,
  };
  return logger;
}

function tell(message: FromPostgresThread): void {
  port.postMessage(message);
}

async function run(): Promise<void> {
  const serving = await serve(workerData as PostgresThreadData);
  // Told once, to close.
  port.once("message", () => {
    void serving[Symbol.asyncDispose]().then(() => port.close());
  });
  tell({ kind: "serving" });
}

run().catch((thrown: unknown) => {
  tell({
    kind: "failed",
    isUsage: thrown instanceof UsageError,
    message: messageOf(thrown),
  });
});
