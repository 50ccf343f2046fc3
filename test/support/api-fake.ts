import { randomBytes } from "node:crypto";
import type { PageOf } from "../../src/domain/config-store.ts";
import { RelayError } from "../../src/domain/errors.ts";
import type { ErrorCode } from "../../src/domain/errors.ts";
import type {
  AttemptView,
  EventFilter,
  EventListItem,
  EventQueries,
} from "../../src/domain/event-query.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import type {
  Actor,
  Destination,
  DestinationInput,
  Endpoint,
  EndpointInput,
  Management,
  Page,
  Project,
} from "../../src/management/management.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** In-memory management and event queries: the smallest thing that keeps the ports' promises. */
export class ApiFake {
  readonly keys = new Map<string, Actor>();
  readonly projects = new Map<string, Mutable<Project>>();
  readonly endpoints = new Map<string, Mutable<Endpoint>>();
  readonly destinations = new Map<string, Mutable<Destination>>();
  readonly events = new Map<string, EventRecord>();
  readonly attempts: AttemptView[] = [];
  /** Thrown by every use case and query while set. */
  failure: Error | null = null;
  ingestReachable = true;
  lastFilter: EventFilter | null = null;
  lastPage: { readonly offset: number; readonly limit: number } | null = null;
  lastDestinationInput: Partial<DestinationInput> | null = null;
  lastEndpointInput: Partial<EndpointInput> | null = null;
  readonly newId = makeIdGenerator();
  #timeMs = Date.UTC(2026, 10, 20);

  tick(): number {
    this.#timeMs += 1;
    return this.#timeMs;
  }

  addKey(orgId: string, scopes: Actor["scopes"] = ["read", "write"]): string {
    const key = `rk_test0000_${randomBytes(16).toString("hex")}`;
    this.keys.set(key, { orgId, keyId: this.newId("key", this.tick()), scopes });
    return key;
  }

  addEvent(endpoint: Endpoint, over: Partial<EventRecord> = {}): EventRecord {
    const receivedAtMs = over.receivedAtMs ?? this.tick();
    const body = over.body ?? Buffer.from('{"type":"ping"}');
    const event: EventRecord = {
      id: this.newId("event", receivedAtMs),
      orgId: endpoint.orgId,
      endpointId: endpoint.id,
      provider: endpoint.provider,
      receivedAtMs,
      method: "POST",
      path: "/in/token",
      query: "",
      headers: [["Content-Type", "application/json"]],
      contentType: "application/json",
      sourceIp: "203.0.113.7",
      signatureValid: true,
      verificationError: null,
      reason: "ok",
      bodyStored: true,
      payloadSizeBytes: body.length,
      ...over,
      body,
    };
    this.events.set(event.id, event);
    return event;
  }

  addAttempt(event: EventRecord, destination: Destination, over: Partial<AttemptView> = {}): void {
    this.attempts.push({
      id: this.newId("attempt", event.receivedAtMs),
      eventId: event.id,
      destinationId: destination.id,
      endpointId: event.endpointId,
      orgId: event.orgId,
      attemptedAtMs: this.tick(),
      attemptNumber: 1,
      receiverUrl: destination.receiverUrl,
      httpStatus: 200,
      responseBody: "ok",
      latencyMs: 12,
      status: "delivered",
      nextRetryAtMs: null,
      ...over,
    });
  }

  readonly management: Management = {
    authenticate: async (key) => {
      if (this.failure !== null) throw this.failure;
      return this.keys.get(key) ?? null;
    },
    projects: {
      list: async (actor, page) =>
        this.#page([...this.projects.values()].filter(ownedBy(actor)), page),
      create: async (actor, { name }) => {
        const slug = name
          .toLowerCase()
          .replaceAll(/[^a-z0-9]+/g, "-")
          .replaceAll(/^-|-$/g, "");
        return this.#saveProject({
          id: this.newId("project", this.tick()),
          orgId: actor.orgId,
          name,
          slug: slug || `project-${randomBytes(3).toString("hex")}`,
          createdAtMs: this.tick(),
        });
      },
      get: async (actor, id) => this.#project(actor, id),
      update: async (actor, id, input) => {
        const project = this.#project(actor, id);
        return this.#saveProject({
          ...project,
          name: input.name ?? project.name,
          slug: input.slug ?? project.slug,
        });
      },
      remove: async (actor, id) => {
        this.#project(actor, id);
        if ([...this.endpoints.values()].some((e) => e.projectId === id && e.deletedAtMs === null))
          throw new RelayError("project_not_empty", "Project still has endpoints");
        this.projects.delete(id);
      },
    },
    endpoints: {
      list: async (actor, projectId, page) => {
        this.#project(actor, projectId);
        return this.#page(
          [...this.endpoints.values()].filter(
            (e) => e.projectId === projectId && e.deletedAtMs === null,
          ),
          page,
        );
      },
      create: async (actor, projectId, input) => {
        this.#project(actor, projectId);
        checkEndpoint(input);
        this.lastEndpointInput = input;
        const id = this.newId("endpoint", this.tick());
        const endpoint: Endpoint = {
          id,
          projectId,
          orgId: actor.orgId,
          name: input.name,
          provider: input.provider,
          verificationMethod: input.verificationMethod ?? "hmac_sha256",
          status: "active",
          url: `http://localhost:8081/in/${randomBytes(16).toString("base64url")}`,
          createdAtMs: this.tick(),
          updatedAtMs: this.tick(),
          deletedAtMs: null,
        };
        this.endpoints.set(id, { ...endpoint });
        return endpoint;
      },
      get: async (actor, id) => this.#endpoint(actor, id),
      update: async (actor, id, input) => {
        const endpoint = this.#endpoint(actor, id);
        this.lastEndpointInput = input;
        endpoint.name = input.name ?? endpoint.name;
        endpoint.provider = input.provider ?? endpoint.provider;
        endpoint.verificationMethod = input.verificationMethod ?? endpoint.verificationMethod;
        endpoint.updatedAtMs = this.tick();
        return endpoint;
      },
      remove: async (actor, id) => {
        this.#endpoint(actor, id).deletedAtMs = this.tick();
      },
      pause: async (actor, id) =>
        Object.assign(this.#endpoint(actor, id), { status: "paused" as const }),
      resume: async (actor, id) =>
        Object.assign(this.#endpoint(actor, id), { status: "active" as const }),
      rotateSecret: async (actor, id) => {
        if (["none", "ip_allowlist"].includes(this.#endpoint(actor, id).verificationMethod))
          throw new RelayError("rotation_not_supported", "This method's secret cannot be rotated.");
        return { id, secret: randomBytes(16).toString("hex") };
      },
      sendTest: async (actor, id) => {
        const endpoint = this.#endpoint(actor, id);
        if (["jwt", "ip_allowlist", "twilio_signature"].includes(endpoint.verificationMethod))
          throw new RelayError("endpoint_not_testable", "Send a real provider event instead.");
        if (endpoint.status === "paused")
          throw new RelayError("endpoint_paused", "Endpoint is paused");
        if (!this.ingestReachable)
          throw new RelayError("ingest_unreachable", "The ingest service could not be reached.");
        const event = this.addEvent(endpoint);
        return { accepted: true, status: 200, eventId: event.id, error: null, url: endpoint.url };
      },
    },
    destinations: {
      list: async (actor, endpointId, page) => {
        this.#endpoint(actor, endpointId);
        return this.#page(
          [...this.destinations.values()].filter(
            (d) => d.endpointId === endpointId && d.deletedAtMs === null,
          ),
          page,
        );
      },
      create: async (actor, endpointId, input) => {
        this.#endpoint(actor, endpointId);
        checkReceiverUrl(input.receiverUrl);
        checkRate(input);
        const id = this.newId("destination", this.tick());
        const destination: Destination = {
          id,
          endpointId,
          orgId: actor.orgId,
          name: input.name,
          receiverUrl: input.receiverUrl,
          forwardOriginalSignature: input.forwardOriginalSignature ?? false,
          status: "active",
          retryMaxAttempts: input.retryMaxAttempts ?? 5,
          retryBackoff: input.retryBackoff ?? "exponential",
          rateLimitMax: input.rateLimitMax ?? null,
          rateLimitWindow: input.rateLimitWindow ?? null,
          createdAtMs: this.tick(),
          updatedAtMs: this.tick(),
          deletedAtMs: null,
        };
        this.destinations.set(id, { ...destination });
        return { destination, serviceSecret: newServiceSecret() };
      },
      get: async (actor, id) => this.#destination(actor, id),
      update: async (actor, id, input) => {
        const destination = this.#destination(actor, id);
        this.lastDestinationInput = input;
        if (input.receiverUrl !== undefined) checkReceiverUrl(input.receiverUrl);
        const given = Object.fromEntries(
          Object.entries(input).filter(([, value]) => value !== undefined),
        );
        checkRate({ ...destination, ...given });
        return Object.assign(destination, given, { updatedAtMs: this.tick() });
      },
      remove: async (actor, id) => {
        this.#destination(actor, id).deletedAtMs = this.tick();
      },
      pause: async (actor, id) =>
        Object.assign(this.#destination(actor, id), { status: "paused" as const }),
      resume: async (actor, id) =>
        Object.assign(this.#destination(actor, id), { status: "active" as const }),
      rotateSecret: async (actor, id) => {
        this.#destination(actor, id);
        return { id, serviceSecret: newServiceSecret() };
      },
    },
    replays: {
      toAll: async (actor, eventId) => {
        const event = this.#replayable(actor, eventId);
        const enqueued = [...this.destinations.values()]
          .filter(
            (d) =>
              d.endpointId === event.endpointId && d.status === "active" && d.deletedAtMs === null,
          )
          .map((d) => d.id);
        return { eventId, enqueued };
      },
      toOne: async (actor, eventId, destinationId) => {
        const event = this.#replayable(actor, eventId);
        if (this.#destination(actor, destinationId).endpointId !== event.endpointId)
          throw missing("Destination");
        return { eventId, destinationId };
      },
    },
  };

  readonly queries: EventQueries = {
    list: async (orgId, filter, page, withSummary) => {
      if (this.failure !== null) throw this.failure;
      this.lastFilter = filter;
      this.lastPage = page;
      const items = this.#matching(orgId, filter).map((event) =>
        this.#listItem(event, withSummary),
      );
      return { items: items.slice(page.offset, page.offset + page.limit), total: items.length };
    },
    facets: async (orgId, filter) => {
      if (this.failure !== null) throw this.failure;
      this.lastFilter = filter;
      const events = this.#matching(orgId, filter);
      const ids = new Set(events.map((event) => event.id));
      return {
        totalEvents: events.length,
        byProvider: tally(events.map((event) => event.provider)),
        bySignatureValid: tally(events.map((event) => event.signatureValid)),
        byAttemptStatus: tally(
          this.attempts.filter((a) => ids.has(a.eventId)).map((a) => a.status),
        ),
      };
    },
    detail: async (orgId, eventId) => {
      const event = await this.queries.event(orgId, eventId);
      return event === null
        ? null
        : { event, deliverySummary: this.#summary(event), attempts: this.#attemptsOf(event) };
    },
    event: async (orgId, eventId) => {
      if (this.failure !== null) throw this.failure;
      const event = this.events.get(eventId);
      return event?.orgId === orgId ? event : null;
    },
    attempts: async (orgId, eventId) => {
      const event = await this.queries.event(orgId, eventId);
      return event === null ? null : this.#attemptsOf(event);
    },
  };

  #listItem(event: EventRecord, withSummary: boolean): EventListItem {
    const item = {
      id: event.id,
      endpointId: event.endpointId,
      orgId: event.orgId,
      provider: event.provider,
      receivedAtMs: event.receivedAtMs,
      signatureValid: event.signatureValid,
      verificationError: event.verificationError,
      payloadSizeBytes: event.payloadSizeBytes,
    };
    return withSummary ? { ...item, deliverySummary: this.#summary(event) } : item;
  }

  #attemptsOf(event: EventRecord): AttemptView[] {
    return this.attempts.filter((attempt) => attempt.eventId === event.id);
  }

  #summary(event: EventRecord) {
    const attempts = this.#attemptsOf(event);
    if (attempts.length === 0) return null;
    const delivered = attempts.filter((attempt) => attempt.status === "delivered").length;
    return { delivered, failed: 0, pending: attempts.length - delivered, total: attempts.length };
  }

  #matching(orgId: string, filter: EventFilter): EventRecord[] {
    return [...this.events.values()]
      .filter(
        (event) =>
          event.orgId === orgId &&
          event.endpointId === (filter.endpointId ?? event.endpointId) &&
          event.provider === (filter.provider ?? event.provider) &&
          event.signatureValid === (filter.signatureValid ?? event.signatureValid) &&
          event.receivedAtMs >= (filter.fromMs ?? 0) &&
          event.receivedAtMs < (filter.toMs ?? Infinity),
      )
      .reverse();
  }

  #page<T>(items: T[], { page, limit }: Page): PageOf<T> {
    const from = (page - 1) * limit;
    return { items: items.reverse().slice(from, from + limit), total: items.length };
  }

  #saveProject(project: Project): Project {
    for (const other of this.projects.values())
      if (other.orgId === project.orgId && other.slug === project.slug && other.id !== project.id)
        throw new RelayError("slug_taken", "A project with this slug already exists");
    this.projects.set(project.id, { ...project });
    return project;
  }

  #project(actor: Actor, id: string): Mutable<Project> {
    const project = this.projects.get(id);
    if (project === undefined || project.orgId !== actor.orgId) throw missing("Project");
    return project;
  }

  #endpoint(actor: Actor, id: string): Mutable<Endpoint> {
    const endpoint = this.endpoints.get(id);
    if (endpoint === undefined || endpoint.orgId !== actor.orgId || endpoint.deletedAtMs !== null)
      throw missing("Endpoint");
    return endpoint;
  }

  #destination(actor: Actor, id: string): Mutable<Destination> {
    const destination = this.destinations.get(id);
    if (
      destination === undefined ||
      destination.orgId !== actor.orgId ||
      destination.deletedAtMs !== null
    )
      throw missing("Destination");
    return destination;
  }

  #replayable(actor: Actor, eventId: string): EventRecord {
    const event = this.events.get(eventId);
    if (event === undefined || event.orgId !== actor.orgId) throw missing("Event");
    if (!event.bodyStored)
      throw new RelayError("payload_not_stored", "The payload of this event was not stored.");
    return event;
  }
}

function ownedBy(actor: Actor) {
  return (item: { readonly orgId: string }) => item.orgId === actor.orgId;
}

function missing(what: string, code: ErrorCode = "not_found"): RelayError {
  return new RelayError(code, `${what} not found`);
}

function newServiceSecret(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

function checkEndpoint(input: EndpointInput): void {
  if (input.provider === "custom" && input.verificationMethod === undefined)
    throw new RelayError("validation_error", "required for custom", {
      field: "verification_method",
    });
  if (input.provider !== "custom" && input.secret === undefined)
    throw new RelayError("validation_error", "required for this provider", { field: "secret" });
}

function checkReceiverUrl(url: string): void {
  if (!/^https:\/\/[a-z0-9.-]+\.[a-z]{2,}(?:\/|$)/i.test(url))
    throw new RelayError("validation_error", "must be https and public", { field: "receiver_url" });
}

function checkRate(input: Partial<DestinationInput>): void {
  if ((input.rateLimitMax ?? null) === null && (input.rateLimitWindow ?? null) === null) return;
  if ((input.rateLimitMax ?? null) === null || (input.rateLimitWindow ?? null) === null)
    throw new RelayError("validation_error", "rate_limit_max and rate_limit_window go together", {
      field: "rate_limit_window",
    });
}

function tally<T>(values: readonly T[]): { value: T; count: number }[] {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].map(([value, count]) => ({ value, count })).sort((a, b) => b.count - a.count);
}
