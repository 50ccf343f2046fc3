import { createHash } from "node:crypto";
import { API_KEY_FORM, looksLikeApiKey, publicPartOfKey, type Scope } from "../domain/api-key.ts";
import { UniqueViolation, type ApiKeyRow, type ApiKeyStore } from "../domain/config-store.ts";
import { UsageError } from "../domain/errors.ts";
import type { IdKind } from "../domain/ids.ts";
import { shellWord } from "../domain/shell-word.ts";

export interface ApiKeyPorts {
  readonly keys: ApiKeyStore;
  readonly now: () => number;
  readonly randomBytes: (size: number) => Uint8Array;
  readonly newId: (kind: IdKind, timeMs: number) => string;
}

interface CreatedApiKey {
  /** The whole key: shown once, never stored. */
  readonly key: string;
  readonly row: ApiKeyRow;
}

export interface ApiKeys {
  /** Creates a key, and the organization when there is none of this name. */
  create(org: string, scopes: readonly Scope[]): Promise<CreatedApiKey>;
  /** Lists the keys, newest first, including revoked ones. @throws {UsageError} for an unknown organization */
  list(org: string): Promise<readonly ApiKeyRow[]>;
  /**
   * Finds a key by its id, its public part as lists show it, or the whole key; returns null when the organization has no such key.
   * @throws {UsageError} for an unknown organization
   */
  find(org: string, text: string): Promise<ApiKeyRow | null>;
  /**
   * Revokes a key, effective everywhere within 2 s, or 30 s where the store is unreachable.
   * @throws {UsageError} for an unknown organization or key
   */
  revoke(org: string, keyId: string): Promise<void>;
  /** Returns whether this very key is usable, whatever its organization. */
  stateOf(key: string): Promise<"usable" | "revoked" | "unknown">;
  /** Makes sure that this very key exists for the organization. A revoked one stays revoked. @throws {UsageError} */
  ensureBootstrap(org: string, key: string): Promise<"created" | "exists" | "revoked">;
}

const HASH_MARK = "sha256:";
const SHOWN_PART = /^(?:rk_[A-Za-z0-9]{8}|sha256:[0-9a-f]{8})$/;
const PUBLIC_CHARACTERS = 8;
const SECRET_BYTES = 24;
const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** Hashes a key. Keys have full entropy, so a plain hash is enough; it is also the index they are found by. */
export function hashApiKey(key: string): Uint8Array {
  return createHash("sha256").update(key).digest();
}

/**
 * Returns what lists show of a key: part of its hash when it is not of the relay's own form and may hold its secret anywhere.
 */
function publicPartOf(key: string): string {
  const hash = Buffer.from(hashApiKey(key)).toString("hex");
  return publicPartOfKey(key) ?? `${HASH_MARK}${hash.slice(0, PUBLIC_CHARACTERS)}`;
}

/** Formats a key for lists. Earlier versions stored the beginning of any key, which may be secret and is not shown. */
export function formatListedKey(row: ApiKeyRow): string {
  if (!SHOWN_PART.test(row.publicPart)) return "(not shown)";
  return row.publicPart + (row.publicPart.startsWith(HASH_MARK) ? "…" : "_…");
}

/** Returns whether a text names a key without revealing it: an id or a public part. */
export function isKeyName(text: string): boolean {
  return /^key_[0-9A-Z]{26}$/.test(text) || SHOWN_PART.test(withoutCut(text));
}

function withoutCut(text: string): string {
  return text.replace(/_?…$/, "");
}

export function makeApiKeys({ keys, now, randomBytes, newId }: ApiKeyPorts): ApiKeys {
  async function organization(name: string): Promise<string> {
    const id = await keys.findOrganization(name);
    if (id === null)
      throw new UsageError(
        `there is no organization "${name}": make it with relay keys create --org ${shellWord(name.trim())}`,
      );
    return id;
  }

  async function insert(org: string, key: string, scopes: readonly Scope[]): Promise<ApiKeyRow> {
    const createdAtMs = now();
    const row: ApiKeyRow = {
      id: newId("key", createdAtMs),
      orgId: await keys.ensureOrganization(org, newId("organization", createdAtMs), createdAtMs),
      publicPart: publicPartOf(key),
      scopes,
      createdAtMs,
      revokedAtMs: null,
    };
    await keys.insertKey(row, hashApiKey(key));
    return row;
  }

  return {
    async create(org, scopes) {
      const publicPart = Array.from(randomBytes(PUBLIC_CHARACTERS), (byte) =>
        ALPHABET.charAt(byte % ALPHABET.length),
      ).join("");
      const secret = Buffer.from(randomBytes(SECRET_BYTES)).toString("base64url");
      const key = `rk_${publicPart}_${secret}`;
      return { key, row: await insert(org, key, scopes) };
    },
    list: async (org) => keys.listKeys(await organization(org)),
    async find(org, text) {
      const orgId = await organization(org);
      const name = withoutCut(text);
      const named = (await keys.listKeys(orgId)).find(
        (row) => row.id === name || row.publicPart === name,
      );
      const row = named ?? (await keys.findKey(hashApiKey(text)));
      return row?.orgId === orgId ? row : null;
    },
    async revoke(org, keyId) {
      const orgId = await organization(org);
      if (!(await keys.revokeKey(orgId, keyId, now())))
        throw new UsageError(
          `organization "${org}" has no key ${keyId} that is not revoked: see relay keys list --org ${shellWord(org)}`,
        );
    },
    async stateOf(key) {
      const row = await keys.findKey(hashApiKey(key));
      if (row === null) return "unknown";
      return row.revokedAtMs === null ? "usable" : "revoked";
    },
    async ensureBootstrap(org, key) {
      if (!looksLikeApiKey(key))
        throw new UsageError(`RELAY_BOOTSTRAP_API_KEY must be ${API_KEY_FORM}`);
      try {
        await insert(org, key, ["read", "write"]);
        return "created";
      } catch (error) {
        if (!(error instanceof UniqueViolation)) throw error;
      }
      const row = await keys.findKey(hashApiKey(key));
      if (row === null || row.orgId !== (await organization(org)))
        throw new UsageError(
          "RELAY_BOOTSTRAP_API_KEY belongs to another organization already: set RELAY_BOOTSTRAP_ORG to it, or use another key",
        );
      // Earlier versions stored the beginning of any key, and this key's may be secret.
      const publicPart = publicPartOf(key);
      if (row.publicPart !== publicPart) await keys.setPublicPart(row.id, publicPart);
      return row.revokedAtMs === null ? "exists" : "revoked";
    },
  };
}
