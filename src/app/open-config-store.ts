import { openDatabase, type Database } from "../adapters/postgres/database.ts";
import {
  startConfigFeed,
  type ConfigFeed,
  type ConfigFeedHandlers,
} from "../adapters/postgres/config-feed.ts";
import { migrate } from "../adapters/postgres/migrate.ts";
import { warnOfPooler } from "../adapters/postgres/warn-of-pooler.ts";
import type { Clock } from "../domain/clock.ts";
import { UsageError } from "../domain/errors.ts";
import type { Logger } from "../domain/logger.ts";
import { attachEmbeddedPostgres, startEmbeddedPostgres } from "../embedded/pglite/start.ts";
import { refuseUnreadableCertificates } from "./database-certificates.ts";
import { explainStoreError, namePostgres } from "./explain-store-error.ts";

/** PostgreSQL, embedded or not, with its feed of configuration changes. */
export interface OpenConfigStore extends AsyncDisposable {
  readonly database: Database;
  /**
   * For lookups by webhooks and deliveries, on connections of its own: on shared ones they wait behind the management
   * API (20 s behind 200 changes a second).
   */
  readonly lookups: Database;
  readonly migrate: () => Promise<readonly string[]>;
  /** Warns of what lies between this process and PostgreSQL, if it cannot work well. */
  readonly checkConnections: () => Promise<void>;
  readonly follow: (handlers: ConfigFeedHandlers) => ConfigFeed;
}

export interface ConfigStoreOptions {
  readonly databaseUrl: string | null;
  readonly dataDir: string;
  /** `serve`: this process owns the data directory; `attach`: another one does. */
  readonly embeddedMode: "serve" | "attach";
  readonly templateFile: string | null;
  readonly clock: Clock;
  readonly logger: Logger;
}

const MAX_CONNECTIONS = 10;
const MAX_LOOKUP_CONNECTIONS = 2;

type Connection = Parameters<typeof openDatabase>[0]["connection"];

/** @throws {UsageError} when the embedded engine cannot be started or attached to, or a certificate cannot be read */
export async function openConfigStore(options: ConfigStoreOptions): Promise<OpenConfigStore> {
  const { dataDir, templateFile, logger, clock } = options;
  const explain = (error: unknown) => explainStoreError(namePostgres(options), error);
  const embedded =
    options.databaseUrl === null && options.embeddedMode === "serve"
      ? await startEmbeddedPostgres({ dataDir, logger, templateFile })
      : null;
  const connection = embedded?.connection ?? (await remoteConnection(options));
  const database = openDatabase({ connection, maxConnections: MAX_CONNECTIONS, logger });
  const lookups = openDatabase({ connection, maxConnections: MAX_LOOKUP_CONNECTIONS, logger });
  return {
    database,
    lookups,
    migrate: () => migrate(database),
    // All connections to the embedded engine are one session, which hears what it listens for.
    checkConnections: async () => {
      if (options.databaseUrl !== null) await warnOfPooler(database, lookups, logger);
    },
    follow: (handlers) => startConfigFeed({ connection, clock, logger, explain, ...handlers }),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([database[Symbol.asyncDispose](), lookups[Symbol.asyncDispose]()]);
      await embedded?.[Symbol.asyncDispose]();
    },
  };
}

async function remoteConnection(options: ConfigStoreOptions): Promise<Connection> {
  if (options.databaseUrl !== null) {
    await refuseUnreadableCertificates(options.databaseUrl);
    return { connectionString: options.databaseUrl };
  }
  const attached = await attachEmbeddedPostgres(options.dataDir);
  if (attached === null)
    throw new UsageError(
      `no relay serves ${options.dataDir}: start one there first, or set DATABASE_URL`,
    );
  return attached;
}
