import type { PGlite } from "@electric-sql/pglite";
import type { Logger } from "../../domain/logger.ts";
import { runOutsideTransactions } from "./session-gate.ts";

export interface RepeatOptions {
  readonly database: PGlite;
  readonly everyMs: number;
  readonly logger: Logger;
}

/**
 * Repeats a statement for which a PostgreSQL server would have a process of its own, and skips it while a connection is inside a
 * transaction.
 */
export function repeatStatement(
  sql: string,
  { database, everyMs }: Pick<RepeatOptions, "database" | "everyMs">,
  onError: (error: unknown) => void,
): AsyncDisposable {
  let running: Promise<void> | null = null;
  const timer = setInterval(() => {
    running ??= runOutsideTransactions(database, sql)
      .then(() => undefined, onError)
      .finally(() => {
        running = null;
      });
  }, everyMs);
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await running;
    },
  };
}
