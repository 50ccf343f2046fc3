import type { Scope } from "../domain/api-key.ts";
import type { PageOf, ProjectRow } from "../domain/config-store.ts";
import type {
  Provider,
  RateLimitWindow,
  ResourceStatus,
  RetryBackoff,
  VerificationMethod,
} from "../domain/enums.ts";
import type { InTurn } from "./in-turn.ts";

/** The caller, derived from the API key by `authenticate`. Everything below is scoped to `orgId`. */
export interface Actor {
  readonly orgId: string;
  readonly keyId: string;
  readonly scopes: readonly Scope[];
}

export interface Page {
  /** Counted from 1. */
  readonly page: number;
  readonly limit: number;
}

/** Projects are answered as they are stored. */
export type Project = ProjectRow;

export interface Endpoint {
  readonly id: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly name: string;
  readonly provider: Provider;
  readonly verificationMethod: VerificationMethod;
  readonly status: ResourceStatus;
  readonly url: string;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly deletedAtMs: number | null;
}

export interface Destination {
  readonly id: string;
  readonly endpointId: string;
  readonly orgId: string;
  readonly name: string;
  readonly receiverUrl: string;
  readonly forwardOriginalSignature: boolean;
  readonly status: ResourceStatus;
  readonly retryMaxAttempts: number;
  readonly retryBackoff: RetryBackoff;
  readonly rateLimitMax: number | null;
  readonly rateLimitWindow: RateLimitWindow | null;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly deletedAtMs: number | null;
}

export interface EndpointInput {
  readonly name: string;
  readonly provider: Provider;
  readonly secret?: string | undefined;
  readonly verificationMethod?: VerificationMethod | undefined;
  readonly verificationConfig?: Readonly<Record<string, unknown>> | undefined;
}

export interface DestinationInput {
  readonly name: string;
  readonly receiverUrl: string;
  readonly forwardOriginalSignature?: boolean | undefined;
  readonly retryMaxAttempts?: number | undefined;
  readonly retryBackoff?: RetryBackoff | undefined;
  readonly rateLimitMax?: number | null | undefined;
  readonly rateLimitWindow?: RateLimitWindow | null | undefined;
}

export interface TestWebhookResult {
  readonly accepted: boolean;
  readonly status: number;
  readonly eventId: string | null;
  readonly error: string | null;
  readonly url: string;
}

/**
 * The use cases behind the management API. An id that is unknown, deleted or another organization's always throws
 * RelayError `not_found` ("Project not found", "Endpoint not found", "Destination not found", "Event not found").
 * Writes are audited with the actor's key. A store that is down throws RelayError `unavailable`.
 */
export interface Management {
  /** Returns null for an unknown, malformed or revoked key. Cached for 2 s, and while the store is unreachable for 30 s. */
  authenticate(bearerKey: string): Promise<Actor | null>;
  readonly projects: {
    list(actor: Actor, page: Page): Promise<PageOf<Project>>;
    create(actor: Actor, input: { readonly name: string }): Promise<Project>;
    get(actor: Actor, id: string): Promise<Project>;
    update(
      actor: Actor,
      id: string,
      input: { readonly name?: string | undefined; readonly slug?: string | undefined },
    ): Promise<Project>;
    remove(actor: Actor, id: string): Promise<void>;
  };
  readonly endpoints: {
    list(actor: Actor, projectId: string, page: Page): Promise<PageOf<Endpoint>>;
    create(
      actor: Actor,
      projectId: string,
      input: EndpointInput,
      inTurn?: InTurn,
    ): Promise<Endpoint>;
    get(actor: Actor, id: string): Promise<Endpoint>;
    update(
      actor: Actor,
      id: string,
      input: Partial<EndpointInput>,
      inTurn?: InTurn,
    ): Promise<Endpoint>;
    remove(actor: Actor, id: string): Promise<void>;
    pause(actor: Actor, id: string): Promise<Endpoint>;
    resume(actor: Actor, id: string): Promise<Endpoint>;
    rotateSecret(
      actor: Actor,
      id: string,
    ): Promise<{ readonly id: string; readonly secret: string }>;
    sendTest(actor: Actor, id: string): Promise<TestWebhookResult>;
  };
  readonly destinations: {
    list(actor: Actor, endpointId: string, page: Page): Promise<PageOf<Destination>>;
    /** `serviceSecret` is shown once. */
    create(
      actor: Actor,
      endpointId: string,
      input: DestinationInput,
      inTurn?: InTurn,
    ): Promise<{ readonly destination: Destination; readonly serviceSecret: string }>;
    get(actor: Actor, id: string): Promise<Destination>;
    update(
      actor: Actor,
      id: string,
      input: Partial<DestinationInput>,
      inTurn?: InTurn,
    ): Promise<Destination>;
    remove(actor: Actor, id: string): Promise<void>;
    pause(actor: Actor, id: string): Promise<Destination>;
    resume(actor: Actor, id: string): Promise<Destination>;
    rotateSecret(
      actor: Actor,
      id: string,
    ): Promise<{ readonly id: string; readonly serviceSecret: string }>;
  };
  readonly replays: {
    /** Replays to every active destination of the event's endpoint. */
    toAll(
      actor: Actor,
      eventId: string,
    ): Promise<{ readonly eventId: string; readonly enqueued: readonly string[] }>;
    toOne(
      actor: Actor,
      eventId: string,
      destinationId: string,
    ): Promise<{ readonly eventId: string; readonly destinationId: string }>;
  };
}
