import type { Log } from "../../../src/domain/log.ts";

/** What a log adapter lends the conformance suite. A fresh one per test, over storage of its own. */
export interface LogHarness extends AsyncDisposable {
  /** Opens the log over the same storage, also again after it was disposed. Only one is open at a time. */
  open(options?: { readonly partitions?: number }): Promise<Log>;
  /** Ends the log as a crash would: consumers commit nothing more. */
  crash(log: Log): Promise<void>;
  /** Holds back or fails the sync that makes an append durable. */
  readonly sync?: {
    hold(): void;
    release(): void;
    /** Fails the next one. */
    failNext(): void;
  };
  /** Makes all that may be trimmed go, whatever its age. */
  trim?(log: Log): Promise<void>;
}

export interface LogHarnessKind {
  readonly name: string;
  /** How many partitions `open()` makes. At least 4. */
  readonly partitions: number;
  /** How long anything may take at most. */
  readonly deadlineMs: number;
  /** What this adapter cannot be asked, and why: shown in the names of the skipped tests. */
  readonly unsupported: {
    readonly sync?: string;
    readonly trimming?: string;
    readonly growth?: string;
    readonly shrinking?: string;
    readonly restartAfterThrow?: string;
  };
  make(): Promise<LogHarness>;
}
