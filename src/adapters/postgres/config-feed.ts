import type { Client, ClientConfig } from "pg";
import type { Clock } from "../../domain/clock.ts";
import type { ConfigChange } from "../../domain/config-store.ts";
import { makeFailureWatch } from "../../domain/failure-watch.ts";
import type { Logger } from "../../domain/logger.ts";
import { ClientSockets } from "./client-sockets.ts";
import { makeClient } from "./make-client.ts";

const CONFIG_CHANNEL = "relay_config";

const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 10_000;
/** A connection that dies silently (a firewall that forgets it) is noticed within two of these. */
const HEARTBEAT_MS = 15_000;

/** Returns null for a payload that the triggers did not make. */
function readConfigChange(payload: string): ConfigChange | null {
  const [endpointId, token, destinationId] = payload.split(" ");
  if (!endpointId || !token || !destinationId) return null;
  return { endpointId, token, destinationId: destinationId === "-" ? null : destinationId };
}

export interface ConfigFeedHandlers {
  readonly onChange: (change: ConfigChange) => void;
  /** Called when changes may have been missed, that is, each time that it begins to listen. */
  readonly onGap: () => void;
}

export interface ConfigFeed extends AsyncDisposable {
  /** Returns whether changes are being pushed at present. */
  readonly listening: () => boolean;
}

/** Listens for configuration changes on a connection of its own, which is made anew whenever it breaks. */
export function startConfigFeed(
  options: ConfigFeedHandlers & {
    readonly connection: ClientConfig;
    readonly clock: Pick<Clock, "monotonic" | "schedule">;
    readonly logger: Logger;
    /** Makes the error of a connection one that names the store. */
    readonly explain: (error: unknown) => Error;
  },
): ConfigFeed {
  const { clock, logger } = options;
  const sockets = new ClientSockets();
  const watch = makeFailureWatch({
    clock,
    failed: (fields) => logger.warn(fields, "config.feed_lost"),
    restored: (fields) => logger.info(fields, "config.feed_restored"),
  });
  let client: Client | null = null;
  let cancelTimer: () => void = () => undefined;
  let pauseMs = FIRST_PAUSE_MS;
  let listens = false;
  /** Monotonic; null unless it was lost and does not listen again yet. */
  let lostSinceMs: number | null = null;
  let ended = false;

  async function listen(): Promise<void> {
    const made = makeClient({
      connectionTimeoutMillis: 3_000,
      query_timeout: 10_000,
      keepAlive: true,
      application_name: "webhook-relay config feed",
      ...options.connection,
      stream: sockets.make,
    });
    client = made;
    made.on("error", (error) => lose(made, error));
    made.on("notification", (message) => {
      const change = readConfigChange(message.payload ?? "");
      if (change !== null) options.onChange(change);
    });
    try {
      await made.connect();
      // Not before: of one that cannot be made, the reason is told.
      made.on("end", () => lose(made, new Error("the connection ended")));
      await made.query(`LISTEN ${CONFIG_CHANNEL}`);
      if (client !== made) return;
      listens = true;
      pauseMs = FIRST_PAUSE_MS;
      tellRestored();
      options.onGap();
      beat(made);
    } catch (error) {
      lose(made, error);
    }
  }

  function tellRestored(): void {
    if (lostSinceMs === null) return;
    watch.onRestored(Math.round(clock.monotonic() - lostSinceMs));
    lostSinceMs = null;
  }

  function beat(made: Client): void {
    cancelTimer = clock.schedule(HEARTBEAT_MS, () => {
      made.query("SELECT 1").then(
        () => {
          if (client === made) beat(made);
        },
        (error: unknown) => lose(made, error),
      );
    });
  }

  function lose(lost: Client, error: unknown): void {
    if (client !== lost || ended) return;
    client = null;
    listens = false;
    lostSinceMs ??= clock.monotonic();
    cancelTimer();
    lost.end().catch(() => undefined);
    watch.onError(options.explain(error));
    cancelTimer = clock.schedule(pauseMs, () => void listen());
    pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS);
  }

  void listen();
  return {
    listening: () => listens,
    async [Symbol.asyncDispose]() {
      ended = true;
      cancelTimer();
      await sockets.end(Promise.resolve(client?.end()));
    },
  };
}
