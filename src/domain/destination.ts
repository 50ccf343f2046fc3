import type { RateLimitWindow, ResourceStatus, RetryBackoff } from "./enums.ts";

/** Maximum number of secrets that sign one delivery. */
export const MAX_SIGNING_SECRETS = 3;

/** One delivery-signing secret (`whsec_…`). The current one has `signsUntilMs` null. */
export interface SigningSecret {
  readonly secret: string;
  readonly signsUntilMs: number | null;
}

/** What fan-out and delivery know about a destination. Secrets are newest first. */
export interface DestinationConfig {
  readonly id: string;
  readonly endpointId: string;
  readonly orgId: string;
  readonly receiverUrl: string;
  readonly forwardOriginalSignature: boolean;
  readonly status: ResourceStatus;
  readonly retryMaxAttempts: number;
  readonly retryBackoff: RetryBackoff;
  readonly rateLimitMax: number | null;
  readonly rateLimitWindow: RateLimitWindow | null;
  readonly secrets: readonly SigningSecret[];
  /** Names (lower case) of the provider's own signature headers at this endpoint: forwarded only on request. */
  readonly signatureHeaders: readonly string[];
  readonly updatedAtMs: number;
}

/** Answer of the configuration cache; `unavailable` when it is cold and PostgreSQL cannot be reached. */
export type Lookup<T> =
  | { readonly kind: "found"; readonly value: T }
  | { readonly kind: "missing" }
  | { readonly kind: "unavailable" };

export const MISSING = { kind: "missing" } as const;
export const UNAVAILABLE = { kind: "unavailable" } as const;

/** A value at once when it is known, a promise when it must be looked up. */
export type MaybeLater<T> = T | Promise<T>;
