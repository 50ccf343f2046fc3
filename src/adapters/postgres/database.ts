import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { Pool, type ClientBase, type PoolClient, type PoolConfig } from "pg";
import { UniqueViolation } from "../../domain/config-store.ts";
import { RelayError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";
import { codeOf, toError } from "../../domain/thrown.ts";
import { ClientSockets } from "./client-sockets.ts";
import { COLUMN_TYPES } from "./column-types.ts";
import { makeClient } from "./make-client.ts";

export type SqlRow = Readonly<Record<string, unknown>>;
/** Parameters are always bound. A text may hold several statements only without `parameters`. */
export type RunSql = (text: string, parameters?: readonly unknown[]) => Promise<readonly SqlRow[]>;

export interface Database extends AsyncDisposable {
  readonly run: RunSql;
  /** Commits when `work` resolves, else rolls back. If two wait for each other, one calls its `work` again. @throws as `run` */
  transaction<T>(work: (run: RunSql) => Promise<T>): Promise<T>;
}

/** A connection of the pool. */
interface Borrowed {
  readonly client: PoolClient;
  /** @param broken why it cannot be used again, if so */
  readonly giveBack: (broken: Error | undefined) => void;
}

/** Also how long a query waits for a connection of the pool to become free. */
const CONNECT_TIMEOUT_MS = 8_000;
const QUERY_TIMEOUT_MS = 15_000;
/** Texts beyond this many are not prepared: an update has one for each set of changed columns. */
const MAX_PREPARED = 256;
/** Most repeats of a transaction that the server ended so that others could go on. */
const MAX_REPEATS = 3;
/** At once, it would take again what the others wait for, before they have woken up. */
const REPEAT_AFTER_MS = 20;

/**
 * Times are read in this style only, whatever the server's default is. The pool waits for it before it hands out the connection, which
 * its typings leave out.
 */
const ON_CONNECT = {
  onConnect: (client: ClientBase) => client.query("SET DateStyle TO ISO"),
};

/**
 * Opens a pool of `pg` connections. Errors: RelayError `unavailable` when PostgreSQL cannot be reached or takes no
 * work, UniqueViolation, else the driver's own.
 */
export function openDatabase(options: {
  readonly connection: PoolConfig;
  readonly maxConnections: number;
  readonly logger: Logger;
}): Database {
  const sockets = new ClientSockets();
  const pool = new Pool({
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    application_name: "webhook-relay",
    types: COLUMN_TYPES,
    ...ON_CONNECT,
    Client: makeClient as unknown as new () => ClientBase,
    allowExitOnIdle: true,
    ...options.connection,
    max: options.maxConnections,
    stream: sockets.make,
  });
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on("error", (cause) => {
    const lost = new RelayError("unavailable", "an idle connection broke", { cause });
    options.logger.warn({ err: lost }, "postgres.connection_lost");
  });

  const nameOf = makeStatementNames();
  const runOn = async (
    client: PoolClient,
    text: string,
    parameters: readonly unknown[] | undefined,
  ): Promise<readonly SqlRow[]> => {
    if (parameters === undefined) return (await client.query<SqlRow>(text)).rows;
    const name = nameOf(text);
    const named = name === undefined ? {} : { name };
    return (await client.query<SqlRow>({ text, values: [...parameters], ...named })).rows;
  };

  /** @throws {RelayError} `unavailable`, whatever the reason: refused, a bad certificate, a wrong password */
  const borrow = async (): Promise<Borrowed> => {
    const client = await pool.connect().catch((error: unknown) => {
      throw unreachable(error);
    });
    let lost: Error | undefined;
    const onError = (error: Error) => {
      lost = error;
    };
    client.on("error", onError);
    return {
      client,
      giveBack: (broken) => {
        client.off("error", onError);
        client.release(broken ?? lost);
      },
    };
  };

  const run: RunSql = async (text, parameters) => {
    const { client, giveBack } = await borrow();
    let broken: Error | undefined;
    try {
      return await runOn(client, text, parameters);
    } catch (error) {
      broken = toError(error);
      throw toStoreError(error);
    } finally {
      giveBack(broken);
    }
  };

  const transactOnce = async <T>(work: (run: RunSql) => Promise<T>): Promise<T> => {
    const { client, giveBack } = await borrow();
    let broken: Error | undefined;
    try {
      // After locking, it must read what others have committed, whatever the server's default isolation is.
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
      const result = await work((text, parameters) => runOn(client, text, parameters));
      const ended = await client.query("COMMIT");
      // After a failed statement PostgreSQL answers COMMIT by rolling back, without an error.
      if (ended.command === "ROLLBACK")
        throw new Error("a statement of this transaction failed: it was rolled back");
      return result;
    } catch (error) {
      const failure = toStoreError(error);
      // A server that does not answer would not answer a ROLLBACK either, and one that takes no writes may be giving way to another:
      // once it loses the connection, it rolls back by itself.
      const isStoreFailure = failure !== error && failure instanceof RelayError;
      broken = isStoreFailure && !isConflict(failure) ? failure : await rollBack(client);
      throw failure;
    } finally {
      giveBack(broken);
    }
  };

  return {
    run,
    async transaction(work) {
      for (let repeats = 0; ; repeats += 1) {
        try {
          return await transactOnce(work);
        } catch (error) {
          if (repeats === MAX_REPEATS || !isConflict(error)) throw error;
        }
        await pause(REPEAT_AFTER_MS);
      }
    },
    async [Symbol.asyncDispose]() {
      await sockets.end(pool.end());
    },
  };
}

/** @returns why the connection cannot be used again, if so */
async function rollBack(client: PoolClient): Promise<Error | undefined> {
  try {
    await client.query("ROLLBACK");
    return undefined;
  } catch (reason) {
    return toError(reason);
  }
}

/**
 * Makes names for statements, so that each connection parses and plans a text once. A name derives from the text: in the
 * embedded engine all connections, of all processes, are one session.
 */
function makeStatementNames(): (text: string) => string | undefined {
  const names = new Map<string, string>();
  return (text) => {
    const known = names.get(text);
    if (known !== undefined || names.size >= MAX_PREPARED) return known;
    const name = `relay_${createHash("sha256").update(text).digest("base64url").slice(0, 22)}`;
    names.set(text, name);
    return name;
  };
}

/**
 * SQLSTATE classes that mean "not now": connection, resources, operator intervention and time limits (of a transaction, too), its disk,
 * read-only standby; and that the relay lacks a right, as it is also told when the server's file system is read-only.
 */
const NOT_NOW = /^(08|53|57|58|25006|42501|25P03|25P04|28|3D000|40001|40P01|55P03)/;
const NETWORK = /^(ECONN|ENOENT|ENOTFOUND|EAI_|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EACCES)/;
const DRIVER = /timeout|terminated|Connection ended|not queryable|Cannot use a pool/i;

/** Serialization failure and deadlock: nothing is wrong with the server, nor with the connection. */
const CONFLICT = /^40(001|P01)$/;

function isConflict(error: unknown): boolean {
  return error instanceof RelayError && CONFLICT.test(codeOf(error.cause) ?? "");
}

/** Returns what callers can tell apart: `unavailable`, a value that is taken, or the error as it is. */
function toStoreError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof RelayError) return error;
  const code = codeOf(error) ?? "";
  if (code === "23505") {
    const constraint =
      "constraint" in error && typeof error.constraint === "string" ? error.constraint : "unknown";
    return new UniqueViolation(constraint, { cause: error });
  }
  if (NOT_NOW.test(code) || NETWORK.test(code) || (code === "" && DRIVER.test(error.message)))
    return unreachable(error);
  return error;
}

function unreachable(cause: unknown): RelayError {
  return new RelayError("unavailable", "The configuration store cannot be reached; try again.", {
    cause,
  });
}
