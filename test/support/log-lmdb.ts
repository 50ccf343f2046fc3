import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLmdbLog } from "../../src/adapters/lmdb/open-lmdb-log.ts";
import type { LmdbLog, LmdbLogOptions } from "../../src/adapters/lmdb/open-lmdb-log.ts";
import type { CommitStore, StoreOptions } from "../../src/adapters/lmdb/store.ts";
import { LogError } from "../../src/domain/log.ts";
import type { LogHarness, LogHarnessKind } from "../conformance/log/harness.ts";
import { systemClock } from "./log-fakes.ts";
import { silentLogger } from "./silent-logger.ts";

/** Returns options for a store in `dir` that reads every blob from its file. */
export const storeIn = (dir: string): StoreOptions => ({
  path: join(dir, "log.mdb"),
  segmentsDir: join(dir, "segments"),
  mapSizeBytes: 2 ** 32,
  cacheBytes: 0,
  damaged: ({ topic, base }) => {
    throw new Error(`records of ${topic} from ${base} on are damaged`);
  },
  unreadable: ({ commits }) => {
    throw new Error(`${commits} commits cannot be read`);
  },
});

export interface SyncFaults {
  /** How often the storage was asked to make something durable. */
  commits: number;
  hold(): void;
  release(): void;
  failNext(error?: LogError): void;
}

/** Returns the store with some of its operations replaced. */
export function withOverrides(store: CommitStore, overrides: Partial<CommitStore>): CommitStore {
  return new Proxy(store, {
    get: (target, name) => {
      const override: unknown = Reflect.get(overrides, name);
      if (override !== undefined) return override;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Makes storage whose sync is held back or fails on demand. */
export function faultyStore(): SyncFaults & { wrap(store: CommitStore): CommitStore } {
  let held: Promise<void> = Promise.resolve();
  let open = () => {};
  let failure: LogError | null = null;
  const faults = {
    commits: 0,
    hold: () => {
      held = new Promise((resolve) => {
        open = resolve;
      });
    },
    release: () => open(),
    failNext: (
      error = new LogError("log_unavailable", "the log cannot be written: told to fail"),
    ) => {
      failure = error;
    },
    wrap: (store: CommitStore): CommitStore =>
      withOverrides(store, {
        commit: async (commit) => {
          faults.commits++;
          await held;
          const error = failure;
          failure = null;
          if (error !== null) throw error;
          await store.commit(commit);
        },
      }),
  };
  return faults;
}

export async function temporaryDir(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "relay-log-"));
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

export function openTestLog(dir: string, options: Partial<LmdbLogOptions> = {}): Promise<LmdbLog> {
  return openLmdbLog({
    dir,
    partitions: 4,
    retentionMs: 0,
    clock: systemClock,
    logger: silentLogger,
    trimIntervalMs: 0,
    mapSizeBytes: 4 * 1024 ** 3,
    ...options,
  });
}

export const lmdbHarness: LogHarnessKind = {
  name: "lmdb",
  partitions: 4,
  deadlineMs: 10_000,
  unsupported: {},
  make: async (): Promise<LogHarness> => {
    const dir = await temporaryDir();
    const faults = faultyStore();
    const logs = new Set<LmdbLog>();
    return {
      open: async (options) => {
        const log = await openTestLog(dir.path, {
          ...options,
          retentionMs: -1,
          wrapStore: faults.wrap,
        });
        logs.add(log);
        return log;
      },
      crash: async (log) => log[Symbol.asyncDispose](),
      sync: faults,
      trim: async (log) => {
        await (log as LmdbLog).trim();
      },
      [Symbol.asyncDispose]: async () => {
        faults.release();
        for (const log of logs) await log[Symbol.asyncDispose]();
        await dir[Symbol.asyncDispose]();
      },
    };
  },
};
