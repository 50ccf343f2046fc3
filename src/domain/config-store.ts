import type { Scope } from "./api-key.ts";
import type {
  Provider,
  RateLimitWindow,
  ResourceStatus,
  RetryBackoff,
  VerificationMethod,
} from "./enums.ts";
import type { PageRange } from "./event-query.ts";

/** Rows of the configuration store and what its adapters offer. Only `SealedRows` ever returns deleted rows. */
export interface ProjectRow {
  readonly id: string;
  readonly orgId: string;
  readonly name: string;
  readonly slug: string;
  readonly createdAtMs: number;
}

export interface EndpointRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string;
  readonly token: string;
  readonly name: string;
  readonly provider: Provider;
  readonly verificationMethod: VerificationMethod;
  readonly methodIsExplicit: boolean;
  readonly status: ResourceStatus;
  /** Secret and verification_config, sealed together with the row id. */
  readonly sealed: Uint8Array;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

export interface DestinationRow {
  readonly id: string;
  readonly orgId: string;
  readonly endpointId: string;
  readonly name: string;
  readonly receiverUrl: string;
  readonly forwardOriginalSignature: boolean;
  readonly status: ResourceStatus;
  readonly retryMaxAttempts: number;
  readonly retryBackoff: RetryBackoff;
  readonly rateLimitMax: number | null;
  readonly rateLimitWindow: RateLimitWindow | null;
  /** The delivery-signing secrets, newest first, sealed with the row id. */
  readonly sealed: Uint8Array;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

export interface PageOf<Row> {
  readonly items: readonly Row[];
  readonly total: number;
}

/** One table of one kind of resource. No method can reach a row of another organization. */
export interface TenantTable<Row extends { readonly id: string; readonly orgId: string }> {
  find(orgId: string, id: string): Promise<Row | null>;
  /** Like `find`, and no one else can change or delete the row before this transaction ends. */
  lock(orgId: string, id: string): Promise<Row | null>;
  /** Like `find`, and the row cannot be deleted before this transaction ends: for parents of new rows. */
  hold(orgId: string, id: string): Promise<Row | null>;
  /** Returns a page, newest first. `parentId` null: of the whole organization (projects). */
  page(orgId: string, parentId: string | null, page: PageRange): Promise<PageOf<Row>>;
  /** Returns all children of a parent, oldest first. */
  children(orgId: string, parentId: string): Promise<readonly Row[]>;
  insert(row: Row): Promise<void>;
  update(orgId: string, id: string, changes: Partial<Omit<Row, "id" | "orgId">>): Promise<void>;
  /** Soft delete. */
  remove(orgId: string, id: string, atMs: number): Promise<void>;
  /** Soft delete of all children of a parent. */
  removeChildren(orgId: string, parentId: string, atMs: number): Promise<void>;
}

export interface AuditEntry {
  readonly orgId: string;
  /** Key id, or `relay` for what the service does on its own. */
  readonly actor: string;
  /** `endpoint.pause`, `destination.update`, … */
  readonly action: string;
  readonly targetId: string;
  readonly atMs: number;
  /** Never a secret: names of changed fields, reasons. */
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface StoreSession {
  readonly projects: TenantTable<ProjectRow>;
  readonly endpoints: TenantTable<EndpointRow>;
  readonly destinations: TenantTable<DestinationRow>;
  audit(entries: readonly AuditEntry[]): Promise<void>;
}

/** @throws {UniqueViolation} and RelayError `unavailable` */
export interface ConfigStore extends StoreSession {
  /** Applies all or nothing. When two writes deadlock, the `work` of one is called again once the other is done. */
  write<T>(work: (session: StoreSession) => Promise<T>): Promise<T>;
}

/** Thrown when a value that must be unique is taken. */
export class UniqueViolation extends Error {
  readonly code = "unique_violation";
  readonly constraint: string;
  constructor(constraint: string, options?: ErrorOptions) {
    super(`a row with this value exists already (${constraint})`, options);
    this.name = "UniqueViolation";
    this.constraint = constraint;
  }
}

export interface ApiKeyRow {
  readonly id: string;
  readonly orgId: string;
  /** `rk_` + 8 characters, or the start of the key's hash: shown in lists, grants nothing. */
  readonly publicPart: string;
  readonly scopes: readonly Scope[];
  readonly createdAtMs: number;
  readonly revokedAtMs: number | null;
}

export interface ApiKeyStore {
  /** Returns the id of the organization of this name; creates it as `newId` when there is none. */
  ensureOrganization(name: string, newId: string, atMs: number): Promise<string>;
  findOrganization(name: string): Promise<string | null>;
  insertKey(row: ApiKeyRow, hash: Uint8Array): Promise<void>;
  /** Finds a key, even a revoked one, by the SHA-256 of the whole key. */
  findKey(hash: Uint8Array): Promise<ApiKeyRow | null>;
  /** Sets what lists show of a key. */
  setPublicPart(keyId: string, publicPart: string): Promise<void>;
  listKeys(orgId: string): Promise<readonly ApiKeyRow[]>;
  /** Returns false when the organization has no such key that is still valid. */
  revokeKey(orgId: string, keyId: string, atMs: number): Promise<boolean>;
}

/** An endpoint with its destinations: what the configuration cache holds together. */
export interface EndpointBundle {
  readonly endpoint: EndpointRow;
  /** Those not deleted, oldest first. */
  readonly destinations: readonly DestinationRow[];
}

export interface BundleKeys {
  readonly tokens: readonly string[];
  readonly endpointIds: readonly string[];
  readonly destinationIds: readonly string[];
}

/** Reads across organizations: for ingest and delivery, never for the API. */
export interface BundleReader {
  bundles(keys: BundleKeys): Promise<readonly EndpointBundle[]>;
  /** Returns the ids of endpoints that are not deleted, newest first. */
  newestEndpoints(count: number): Promise<readonly string[]>;
}

/** A committed change of configuration, as pushed by the store. */
export interface ConfigChange {
  readonly endpointId: string;
  readonly token: string;
  /** Null when the endpoint itself changed. */
  readonly destinationId: string | null;
}

/** The tables with a sealed column. */
export const SEALED_TABLES = ["endpoints", "destinations"] as const;
type SealedTable = (typeof SEALED_TABLES)[number];

export interface SealedRow {
  readonly id: string;
  readonly sealed: Uint8Array;
}

/** The sealed column of every row, deleted ones too: for a change of the encryption key. */
export interface SealedRows {
  /** Returns rows in the order of their ids, from the first id after `afterId`. */
  readAfter(table: SealedTable, afterId: string, limit: number): Promise<readonly SealedRow[]>;
  /** Returns false when the row has changed since it was read. */
  replace(table: SealedTable, row: SealedRow, sealed: Uint8Array): Promise<boolean>;
}
