import type { MetricsRegistry } from "../adapters/prometheus/registry.ts";
import type { HttpSender } from "../adapters/undici/http-sender.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import type { Log } from "../domain/log.ts";
import type { Logger } from "../domain/logger.ts";
import type { ConfigCache } from "../management/config-cache.ts";
import type { SecretBox } from "../management/secret-box.ts";
import type { LateTokens } from "./late-tokens.ts";
import type { OpenConfigStore } from "./open-config-store.ts";
import type { EventStoreClients } from "./open-event-store.ts";
import type { Supervisor } from "./supervisor.ts";

/** What every role is built on. */
export interface Core {
  readonly config: RelayConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly supervisor: Supervisor;
  readonly registry: MetricsRegistry["registry"];
  readonly log: Log;
  readonly cache: ConfigCache;
  readonly box: SecretBox;
  readonly tokens: LateTokens;
  readonly configStore: OpenConfigStore;
  readonly sender: HttpSender;
  /** What `Endpoint.url` starts with; no trailing slash. */
  readonly publicIngestUrl: string;
  /** Null in a process that only ingests. */
  readonly eventStore: EventStoreClients | null;
  /** Registers a reader of consumer lag for `/metrics`. */
  readonly watchLag: (group: string, lag: () => Promise<ReadonlyMap<string, number>>) => void;
}

/** Returns the event store, which a role that reads or writes events always has. @throws {Error} in a process without one */
export function requireEventStore(core: Core): EventStoreClients {
  if (core.eventStore === null) throw new Error("this role needs the event store");
  return core.eventStore;
}
