import { readFileSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Session } from "chdb";
import { loadEngine, reasonOf, type Engine } from "./engine.ts";
import { makeHttpListener } from "./http-listener.ts";
import { READ_SESSIONS, type FromChild, type StartMessage, type ToChild } from "./protocol.ts";
import { makeStatementRunner } from "./run-statement.ts";
import { SessionPool } from "./session-pool.ts";

const WRITE_SESSIONS = 2;

/** Background merges must leave the cores to queries; the defaults are meant for a big server. */
const ENGINE_ARGUMENTS = ["--background_pool_size=4", "--background_schedule_pool_size=4"];

/** Linux adds it to a score between 0, for a process that takes no memory, and 1,000, for one that takes all. */
const SCORE_FILE = "/proc/self/oom_score_adj";
const RATHER_THIS_ONE = 500;
const MOST = 1_000;

/**
 * Where memory runs out, Linux ends the process with the most of it, which would be the relay. This one is started again, and
 * what it had not recorded is still in the log.
 */
function beEndedFirst(): void {
  try {
    const score = Number(readFileSync(SCORE_FILE, "latin1")) + RATHER_THIS_ONE;
    writeFileSync(SCORE_FILE, String(Math.min(MOST, score)));
  } catch {
    // Another system, or one that does not allow it.
  }
}

async function serve(start: StartMessage): Promise<number> {
  const engine = loadEngine(start.storeDir, [
    ...ENGINE_ARGUMENTS,
    `--max_server_memory_usage=${start.memoryBytes}`,
  ]);
  const control = await openStore(engine, start);
  const open = (count: number) =>
    new SessionPool(Array.from({ length: count }, () => engine.openSession()));
  const runner = makeStatementRunner(engine, {
    read: open(READ_SESSIONS),
    write: open(WRITE_SESSIONS),
    control: new SessionPool([control]),
  });
  const server = makeHttpListener(runner, start);
  await listen(server, start.port);
  return (server.address() as AddressInfo).port;
}

/** Opens the store. If its files are bad, the engine itself has already written why to the error stream. */
async function openStore(engine: Engine, { storeDir, database }: StartMessage): Promise<Session> {
  try {
    const session = engine.openSession();
    await engine.query(session, `CREATE DATABASE IF NOT EXISTS \`${database}\``);
    return session;
  } catch (cause) {
    throw new Error(
      `${storeDir} cannot be opened (${reasonOf(cause)}): see that its disk has room, or restore the data directory from a backup`,
      { cause },
    );
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    // Never removed: a connection that cannot be accepted is reported here too, and unheard it would end the process.
    server.on("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
}

function tell(message: FromChild): void {
  process.send?.(message);
}

/**
 * Ends at once, whatever the engine is doing: a query cannot be interrupted, and parts of an insert that
 * did not finish are dropped at the next start.
 */
function end(): void {
  process.kill(process.pid, "SIGKILL");
}

beEndedFirst();
// Signals meant for all processes of a service must not take the store away before its users have finished.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
process.on("disconnect", end);
process.on("message", (message: ToChild) => {
  switch (message.kind) {
    case "start":
      serve(message)
        .then((port) => tell({ kind: "ready", port }))
        .catch((error: unknown) => tell({ kind: "failed", message: reasonOf(error) }));
      return;
    case "stop":
      end();
      return;
    default:
      message satisfies never;
  }
});
// The owner may have ended before anything listened.
if (!process.connected) end();
