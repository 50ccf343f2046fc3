/** What the thread of the embedded PostgreSQL is started with. */
export interface PostgresThreadData {
  readonly dataDir: string;
  /** Of the socket that it serves on. */
  readonly path: string;
  readonly templateFile: string | null;
  readonly checkpointEveryMs: number;
  readonly analyzeEveryMs: number;
  /** How long a connection may leave a transaction open and send nothing, while all others wait for it. */
  readonly maxIdleMs: number;
}

export type FromPostgresThread =
  | { readonly kind: "serving" }
  /** It ends after this. `isUsage`: the message tells the user what to do. What caused it may be nothing that can be sent. */
  | { readonly kind: "failed"; readonly isUsage: boolean; readonly message: string }
  | {
      readonly kind: "log";
      readonly level: "debug" | "info" | "warn" | "error";
      readonly fields: object;
      readonly message: string;
    };

/** Ends it, once what is under way is done. */
export interface CloseMessage {
  readonly kind: "close";
}
