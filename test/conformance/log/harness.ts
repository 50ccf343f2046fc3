import type { Log } from "../../../src/domain/log.ts";

/** What a log adapter provides for the conformance suite: a fresh one per test, over its own storage. */
export interface LogHarness extends AsyncDisposable {
  /** Opens the log over the same storage, also again after it was disposed of. Only one is open at a time. */
  open(options?: { readonly partitions?: number }): Promise<Log>;
  /** Ends the log as a crash would: consumers make no further commits. */
  crash(log: Log): Promise<void>;
  /** Holds back or fails the sync that makes an append durable. */
  readonly sync?: {
    hold(): void;
    release(): void;
    /** Fails the next sync. */
    failNext(): void;
  };
  /** Trims everything that may be trimmed, whatever its age. */
  trim?(log: Log): Promise<void>;
}

export interface LogHarnessKind {
  readonly name: string;
  /** How many partitions `open()` makes; at least 4. */
  readonly partitions: number;
  /** The longest that anything may take. */
  readonly deadlineMs: number;
  /** What this adapter does not support, and why; shown in the names of the skipped tests. */
  readonly unsupported: {
    readonly sync?: string;
    readonly trimming?: string;
    readonly growth?: string;
    readonly shrinking?: string;
    readonly restartAfterThrow?: string;
  };
  make(): Promise<LogHarness>;
}
