import type { Clock } from "../domain/clock.ts";
import type { ApiKeyStore, ConfigStore } from "../domain/config-store.ts";
import type { EventQueries } from "../domain/event-query.ts";
import type { HeaderList } from "../domain/event.ts";
import type { IdKind } from "../domain/ids.ts";
import type { Log } from "../domain/log.ts";
import type { IngestTokens } from "./ingest-token.ts";
import type { SecretBox } from "./secret-box.ts";

type ReceiverVerdict = { readonly ok: true } | { readonly ok: false; readonly reason: string };

export interface TestRequest {
  readonly url: string;
  readonly method: "POST";
  readonly headers: HeaderList;
  readonly body: Uint8Array;
}

export type TestAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** `x-relay-event-id` of the answer. */
      readonly eventId: string | null;
      readonly body: string;
    }
  | { readonly kind: "unreachable"; readonly reason: string };

/** What the use cases need from outside. */
export interface ManagementPorts {
  readonly store: ConfigStore;
  readonly keys: ApiKeyStore;
  readonly box: SecretBox;
  readonly tokens: IngestTokens;
  readonly log: Pick<Log, "append" | "writesWhole">;
  readonly events: Pick<EventQueries, "event">;
  /** Returns the guard's verdict on a receiver URL, including name resolution. */
  readonly checkReceiver: (url: string) => Promise<ReceiverVerdict>;
  /** Posts a test webhook; never throws. */
  readonly postTest: (request: TestRequest) => Promise<TestAnswer>;
  readonly now: () => number;
  readonly clock: Pick<Clock, "monotonic" | "schedule">;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly randomBytes: (size: number) => Uint8Array;
  readonly newId: (kind: IdKind, timeMs: number) => string;
}

export interface ManagementOptions {
  /** What `Endpoint.url` starts with, without a slash at the end. */
  readonly publicIngestUrl: string;
  /** Where the test operation posts; no slash at the end either. */
  readonly testIngestUrl: string;
  /** How long deliveries also carry the signature of a rotated-out secret. */
  readonly rotationOverlapMs: number;
}
