import type { PGlite } from "@electric-sql/pglite";
import type { Logger } from "../../domain/logger.ts";
import { runOutsideTransactions } from "./session-gate.ts";

export interface RepeatOptions {
  readonly database: PGlite;
  readonly everyMs: number;
  readonly logger: Logger;
}

/**
 * Runs again and again a statement that a PostgreSQL server would have a process of its own for, and leaves it out while a
 * connection is inside a transaction. A failure is logged under `failed`.
 */
export function repeatStatement(
  sql: string,
  failed: string,
  { database, everyMs, logger }: RepeatOptions,
): AsyncDisposable {
  let running: Promise<void> | null = null;
  const timer = setInterval(() => {
    running ??= runOutsideTransactions(database, sql)
      .then(
        () => undefined,
        (error: unknown) => logger.warn({ err: error }, failed),
      )
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
