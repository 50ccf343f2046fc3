import type { RelayConfig } from "../config/config.ts";
import { UsageError } from "../domain/errors.ts";
import { claimDataDir } from "../embedded/data-dir.ts";

/** How this process stands to the embedded stores: it serves them, uses another process's, or needs none. */
export type DataDirUse =
  | { readonly mode: "serve"; readonly claim: AsyncDisposable }
  | { readonly mode: "attach"; readonly ownerPid: number }
  | { readonly mode: "none" };

/**
 * Claims the data directory for a process that needs an embedded store.
 * @throws {UsageError} when another process has it and this one does more than ingest
 */
export async function openDataDir(config: RelayConfig): Promise<DataDirUse> {
  const needsEvents = config.roles.includes("api") || config.roles.includes("delivery");
  const isEmbedded =
    config.databaseUrl === null ||
    config.kafka === null ||
    (needsEvents && config.clickhouseUrl === null);
  if (!isEmbedded) return { mode: "none" };
  const claim = await claimDataDir(config.dataDir);
  if (claim.kind === "owner") return { mode: "serve", claim };
  if (!needsEvents) return { mode: "attach", ownerPid: claim.ownerPid };
  throw new UsageError(
    `the data directory ${config.dataDir} belongs to the running relay with process id ${claim.ownerPid}: stop it, set RELAY_DATA_DIR to another directory, or start only --roles ingest beside it`,
  );
}
