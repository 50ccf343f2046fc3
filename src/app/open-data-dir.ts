import type { RelayConfig } from "../config/config.ts";
import { UsageError } from "../domain/errors.ts";
import { claimDataDir } from "../embedded/data-dir.ts";

/** How this process relates to the embedded stores: it serves them, uses another process's, or needs none. */
export type DataDirUse =
  | { readonly mode: "serve"; readonly claim: AsyncDisposable }
  | { readonly mode: "attach"; readonly ownerPid: number }
  | { readonly mode: "none" };

/** Embedded stores have files larger than this, and one that cannot grow any more looks damaged at the next start. */
const SMALLEST_FILE_BYTES = 2 ** 30;

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
  if (!needsEventStore(config)) return { mode: "attach", ownerPid: claim.ownerPid };
  throw new UsageError(
    `the data directory ${config.dataDir} belongs to the running relay with process id ${claim.ownerPid}: stop it, set RELAY_DATA_DIR to another directory, or start only --roles ingest beside it`,
  );
}

function refuseSmallFiles(): void {
  const most = readReport().userLimits?.file_size_blocks?.soft;
  if (typeof most === "number" && most < SMALLEST_FILE_BYTES)
    throw new UsageError(
      `this process may write files of ${most} bytes only, and embedded stores have larger ones: raise the limit (ulimit -f), or set DATABASE_URL, KAFKA_BROKERS and CLICKHOUSE_URL`,
    );
}

interface Report {
  // In bytes, whatever its name says.
  readonly userLimits?: { readonly file_size_blocks?: { readonly soft: number | "unlimited" } };
}

/** Reads the report without networks: with them, Node asks for the name of every address listened on, and waits for DNS. */
function readReport(): Report {
  const report: typeof process.report & { excludeNetwork?: boolean } = process.report;
  const { excludeNetwork = false } = report;
  report.excludeNetwork = true;
  try {
    return report.getReport();
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}
