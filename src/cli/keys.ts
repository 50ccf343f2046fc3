import { openApiKeys } from "../app/open-api-keys.ts";
import { organizationName } from "../config/value-types.ts";
import type { Scope } from "../domain/api-key.ts";
import { UsageError } from "../domain/errors.ts";
import { shellWord } from "../domain/shell-word.ts";
import { isKeyName, formatListedKey, type ApiKeys } from "../management/api-keys.ts";
import { printLine, type CommandIo } from "./io.ts";
import { withConfigStore } from "./with-config-store.ts";

export async function createKey(
  io: CommandIo,
  options: { readonly org: string; readonly scope: string },
): Promise<void> {
  const scopes = parseScopes(options.scope);
  const org = organizationName.safeParse(options.org);
  if (!org.success) throw new UsageError(`--org ${org.error.issues[0]?.message ?? "is wrong"}`);
  await withKeys(io, async (keys) => {
    const { key, row } = await keys.create(options.org, scopes);
    printLine(io.stdout, key);
    printLine(
      io.stderr,
      `${row.id} for organization "${options.org}" (${row.orgId}), scopes ${scopes.join(",")}. It is not shown again.`,
    );
  });
}

export async function listKeys(io: CommandIo, options: { readonly org: string }): Promise<void> {
  await withKeys(io, async (keys) => {
    for (const row of await keys.list(options.org)) {
      const state =
        row.revokedAtMs === null ? "active" : `revoked ${new Date(row.revokedAtMs).toISOString()}`;
      printLine(
        io.stdout,
        [
          row.id,
          formatListedKey(row),
          row.scopes.join(","),
          new Date(row.createdAtMs).toISOString(),
          state,
        ].join("  "),
      );
    }
  });
}

/** @param key the id (`key_…`), the public part as listed or a whole key */
export async function revokeKey(
  io: CommandIo,
  key: string,
  options: { readonly org: string },
): Promise<void> {
  await withKeys(io, async (keys) => {
    const row = await keys.find(options.org, key);
    // Text that does not name a key may be a whole one, of another organization, so it is not repeated.
    if (row === null)
      throw new UsageError(
        `organization "${options.org}" has no ${isKeyName(key) ? `key ${key}` : "such key"}: see relay keys list --org ${shellWord(options.org)}`,
      );
    await keys.revoke(options.org, row.id);
    printLine(
      io.stdout,
      `${row.id} is revoked; every node refuses it within 2 s, or 30 s while it cannot reach the store`,
    );
  });
}

function parseScopes(text: string): Scope[] {
  const scopes = [...new Set(text.split(",").map((scope) => scope.trim()))];
  const known = scopes.filter((scope) => scope === "read" || scope === "write");
  if (known.length === 0 || known.length < scopes.length)
    throw new UsageError("--scope must be read, write or read,write");
  return known;
}

async function withKeys(io: CommandIo, work: (keys: ApiKeys) => Promise<void>): Promise<void> {
  await withConfigStore(io, (store) => work(openApiKeys(store)));
}
