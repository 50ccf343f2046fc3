import { fork, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { systemReason, UsageError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";
import { messageOf } from "../../domain/thrown.ts";
import { startTime } from "../data-dir-process.ts";
import { cannotStart, comeUp } from "./come-up.ts";
import { refuseFullDisk } from "./refuse-full-disk.ts";
import { engineMemoryBytes } from "./engine-memory.ts";
import { readCredentials, writeCredentials } from "./credentials-file.ts";
import { waitForFormerChild } from "./former-child.ts";
import type { StartMessage } from "./protocol.ts";

const USER = "relay";
const DATABASE = "relay";
const FORMER_CHILD_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 5_000;
/** Sessions run on libuv's threads, one statement each; more threads than sessions leave room for files. */
const CHILD_THREADS = 14;

export interface EmbeddedClickHouseOptions {
  readonly dataDir: string;
  readonly logger: Logger;
  /** URL of the child that this one replaces after a crash: its port and password are kept, so that clients stay valid. */
  readonly previousUrl?: string | undefined;
}

/** How the child ended; `expected` when it was disposed. */
interface EmbeddedClickHouseEnd {
  readonly expected: boolean;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface EmbeddedClickHouse extends AsyncDisposable {
  /** `http://user:password@127.0.0.1:port/database`, for `@clickhouse/client`. */
  readonly url: string;
  readonly pid: number;
  /** Resolves when the child is gone: a supervisor starts it again with `previousUrl`. */
  readonly closed: Promise<EmbeddedClickHouseEnd>;
}

/**
 * Starts chDB in a child process behind ClickHouse's HTTP interface on loopback, with its files in
 * `<dataDir>/clickhouse` and its address in `<dataDir>/run/clickhouse.json` (0600). The child ends when this
 * process does, however that ends; a child that an earlier owner left behind is waited for.
 * @throws {UsageError} when it is new and its disk is full, when its process cannot be made, the engine cannot be loaded, does not
 *   open its files or does not come up within a minute, when an earlier owner's child stays, or when the port of `previousUrl` has been
 *   taken: clients would go on asking there
 */
export async function startEmbeddedClickHouse(
  options: EmbeddedClickHouseOptions,
): Promise<EmbeddedClickHouse> {
  const startedAt = performance.now();
  const dataDir = resolve(options.dataDir);
  const former = await readCredentials(dataDir);
  if (former !== null) await waitForFormerChild(former, FORMER_CHILD_TIMEOUT_MS);
  const storeDir = join(dataDir, "clickhouse");
  const isNew = await makeDirectory(storeDir);
  await refuseFullDisk(storeDir, DATABASE);
  if (isNew && former !== null)
    options.logger.warn(
      { storeDir, lost: "what was recorded until now, unless this directory is restored" },
      "clickhouse.embedded.store_missing",
    );
  const previous = options.previousUrl === undefined ? null : new URL(options.previousUrl);
  const start: StartMessage = {
    kind: "start",
    storeDir,
    user: USER,
    password: previous?.password ?? randomBytes(24).toString("base64url"),
    port: Number(previous?.port ?? 0),
    database: DATABASE,
    memoryBytes: engineMemoryBytes(),
  };
  const child = await spawnChild();
  const pid = child.pid ?? -1;
  const identity = { pid, startedAt: startTime(pid) };
  let expected = false;
  const closed = new Promise<EmbeddedClickHouseEnd>((done) => {
    child.once("exit", (code, signal) => {
      if (!expected)
        options.logger.error({ code, signal, enginePid: pid }, "clickhouse.embedded.ended");
      done({ expected, code, signal });
    });
  });
  const stop = async (): Promise<void> => {
    expected = true;
    if (child.connected) child.send({ kind: "stop" }, () => undefined);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await closed;
    clearTimeout(timer);
  };
  try {
    // Its number is on disk before it touches the store: if this owner dies now, the next one must not start too soon.
    await writeCredentials(dataDir, { url: "", ...identity });
    const port = await comeUp(child, start);
    const url = `http://${USER}:${start.password}@127.0.0.1:${port}/${DATABASE}`;
    await writeCredentials(dataDir, { url, ...identity });
    options.logger.info(
      { enginePid: pid, port, startedInMs: Math.round(performance.now() - startedAt) },
      "clickhouse.embedded.started",
    );
    return { url, pid, closed, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @returns whether it was missing */
async function makeDirectory(path: string): Promise<boolean> {
  try {
    return (await mkdir(path, { recursive: true, mode: 0o700 })) !== undefined;
  } catch (cause) {
    throw new UsageError(
      `the directory of events ${path} cannot be made (${systemReason(cause)}): make room for it, or set RELAY_DATA_DIR to another directory`,
      { cause },
    );
  }
}

/** @throws {UsageError} when the system has no room for it: such a child never exits, and its error, if unhandled, would end this process */
async function spawnChild(): Promise<ChildProcess> {
  const isSource = import.meta.url.endsWith(".ts");
  const file = fileURLToPath(
    new URL(isSource ? "./chdb-worker.ts" : "./chdb-worker.js", import.meta.url),
  );
  const { NODE_OPTIONS: _, ...environment } = process.env;
  const child = fork(file, [], {
    execArgv: isSource ? ["--import", "tsx"] : [],
    env: { ...environment, UV_THREADPOOL_SIZE: String(CHILD_THREADS), TZ: "UTC" },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    // In a group of its own: Ctrl-C in a terminal goes to the whole group, and would end it before it handles signals.
    detached: true,
  });
  try {
    await once(child, "spawn");
    return child;
  } catch (cause) {
    throw cannotStart(`its process cannot be made (${messageOf(cause)})`);
  }
}
