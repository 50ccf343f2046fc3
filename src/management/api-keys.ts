import { createHash } from "node:crypto";
import { API_KEY_FORM, looksLikeApiKey } from "../domain/api-key.ts";
import { UniqueViolation, type ApiKeyRow, type ApiKeyStore } from "../domain/config-store.ts";
import { UsageError } from "../domain/errors.ts";
import type { IdKind } from "../domain/ids.ts";

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
  /** Makes the organization when there is none of this name. */
  create(org: string, scopes: ApiKeyRow["scopes"]): Promise<CreatedApiKey>;
  /** Newest first, revoked ones too. @throws {UsageError} for an unknown organization */
  list(org: string): Promise<readonly ApiKeyRow[]>;
  /** Effective everywhere within 30 s. @throws {UsageError} for an unknown organization or key */
  revoke(org: string, keyId: string): Promise<void>;
  /** Makes sure that this very key exists for the organization. A revoked one stays revoked. @throws {UsageError} */
  ensureBootstrap(org: string, key: string): Promise<"created" | "exists" | "revoked">;
}

const PUBLIC_CHARACTERS = 8;
const SECRET_BYTES = 24;
const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** Keys have full entropy, so a plain hash is enough; it is also the index they are found by. */
export function hashApiKey(key: string): Uint8Array {
  return createHash("sha256").update(key).digest();
}

export function makeApiKeys({ keys, now, randomBytes, newId }: ApiKeyPorts): ApiKeys {
  async function organization(name: string): Promise<string> {
    const id = await keys.findOrganization(name);
    if (id === null)
      throw new UsageError(
        `there is no organization "${name}": make it with relay keys create --org ${name}`,
      );
    return id;
  }

  async function insert(org: string, key: string, scopes: ApiKeyRow["scopes"]): Promise<ApiKeyRow> {
    const createdAtMs = now();
    const row: ApiKeyRow = {
      id: newId("key", createdAtMs),
      orgId: await keys.ensureOrganization(org, newId("organization", createdAtMs), createdAtMs),
      publicPart: key.slice(0, "rk_".length + PUBLIC_CHARACTERS),
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
    async revoke(org, keyId) {
      const orgId = await organization(org);
      if (!(await keys.revokeKey(orgId, keyId, now())))
        throw new UsageError(
          `organization "${org}" has no key ${keyId} that is not revoked: see relay keys list --org ${org}`,
        );
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
      return row.revokedAtMs === null ? "exists" : "revoked";
    },
  };
}
