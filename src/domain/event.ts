import type { Provider } from "./enums.ts";

/** Header names and values in arrival order, names as sent. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

/** One incoming webhook as it stands in the log: the truth that all read models are built from. */
export interface EventRecord {
  /** `evt_` + ULID whose time is `receivedAtMs`. */
  readonly id: string;
  readonly orgId: string;
  readonly endpointId: string;
  readonly provider: Provider;
  readonly receivedAtMs: number;
  readonly method: string;
  readonly path: string;
  /** Raw query string without `?`; empty when there is none. */
  readonly query: string;
  /** Credentials are already redacted. */
  readonly headers: HeaderList;
  readonly contentType: string | null;
  readonly sourceIp: string;
  /** True only for what was accepted (answered 2xx): only these are fanned out. */
  readonly signatureValid: boolean;
  /** Actionable reason for a human reader; null when accepted. */
  readonly verificationError: string | null;
  /** Machine-readable form of the same outcome: `ok`, `signature_mismatch`, `endpoint_paused`, … */
  readonly reason: string;
  /** False for 413 and 429: such an event cannot be replayed. */
  readonly bodyStored: boolean;
  /** Size as received (or as announced, when the body was refused). */
  readonly payloadSizeBytes: number;
  readonly body: Uint8Array;
}
