import type { RelayConfig } from "../config/config.ts";
import { UsageError } from "../domain/errors.ts";
import { claimDataDir } from "../embedded/data-dir.ts";
import { refuseSmallFiles } from "./process-limits.ts";

/** How this process relates to the embedded stores: it serves them, uses another process's, or needs none. */
export type DataDirUse =
  | { readonly mode: "serve"; readonly claim: AsyncDisposable }
  | { readonly mode: "attach" | "none" };

/** Ingest writes events to the log only. */
export function needsEventStore({ roles }: Pick<RelayConfig, "roles">): boolean {
  return roles.includes("api") || roles.includes("delivery");
}

/**
 * Claims the data directory for a process that needs an embedded store.
 * @throws {UsageError} when a command has it, when a relay has it and this process does more than ingest, or when files may not grow
 */
export async function openDataDir(config: RelayConfig): Promise<DataDirUse> {
  const isEmbedded =
    config.databaseUrl === null ||
    config.kafka === null ||
    (needsEventStore(config) && config.clickhouseUrl === null);
  if (!isEmbedded) return { mode: "none" };
  refuseSmallFiles();
  const claim = await claimDataDir(config.dataDir);
  if (claim.kind === "owner") return { mode: "serve", claim };
  if (claim.ownerIs === "command")
    throw new UsageError(
      `a command (process ${claim.ownerPid}) works on the data directory ${config.dataDir}: start again when it has ended`,
    );
  if (!needsEventStore(config)) return { mode: "attach" };
  throw new UsageError(
    `the data directory ${config.dataDir} belongs to the running relay with process id ${claim.ownerPid}: stop it, set RELAY_DATA_DIR to another directory, or start only --roles ingest beside it`,
  );
}
