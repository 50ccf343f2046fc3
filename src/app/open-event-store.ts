import { connectClickHouse, MAX_CONNECTIONS } from "../adapters/clickhouse/connect.ts";
import { connectLookups, type Lookups } from "../adapters/clickhouse/lookups.ts";
import { READ_SESSIONS } from "../embedded/chdb/protocol.ts";
import { startEmbeddedClickHouse } from "../embedded/chdb/start-embedded-clickhouse.ts";
import type { Logger } from "../domain/logger.ts";
import { opened, type Supervisor } from "./supervisor.ts";

type EventStoreClient = ReturnType<typeof connectClickHouse>;

/**
 * Clients of the event store. Reads and writes have separate connections: on shared ones an insert waits behind the
 * queries (14 s behind fifty slow ones).
 */
export interface EventStoreClients {
  readonly reads: EventStoreClient;
  readonly writes: EventStoreClient;
  readonly lookups: Lookups;
  /** Most reads that are answered at the same time. */
  readonly maxReads: number;
}

export interface EventStoreOptions {
  /** Null for the embedded one, served by this process. */
  readonly clickhouseUrl: string | null;
  readonly dataDir: string;
  readonly logger: Logger;
  readonly supervisor: Supervisor;
}

/** Connects to ClickHouse; the embedded one is a supervised part that keeps its address when it is restarted. */
export async function openEventStore(options: EventStoreOptions): Promise<EventStoreClients> {
  const url = options.clickhouseUrl ?? (await superviseEmbedded(options));
  const [reads, writes] = [connectClickHouse(url), connectClickHouse(url)];
  const lookups = connectLookups(url);
  const clients: AsyncDisposable = {
    async [Symbol.asyncDispose]() {
      await Promise.all([reads.close(), writes.close(), lookups.close()]);
    },
  };
  await options.supervisor.add(opened("clickhouse-client", clients));
  const maxReads = options.clickhouseUrl === null ? READ_SESSIONS : MAX_CONNECTIONS;
  return { reads, writes, lookups, maxReads };
}

async function superviseEmbedded({
  dataDir,
  logger,
  supervisor,
}: EventStoreOptions): Promise<string> {
  let url: string | undefined;
  await supervisor.add({
    name: "clickhouse",
    start: async (failed) => {
      const running = await startEmbeddedClickHouse({ dataDir, logger, previousUrl: url });
      url = running.url;
      void running.closed.then((end) => {
        if (!end.expected)
          failed(new Error(`the embedded ClickHouse ended (${end.signal ?? end.code})`));
      });
      return running;
    },
  });
  if (url === undefined) throw new Error("the embedded ClickHouse has no address");
  return url;
}
