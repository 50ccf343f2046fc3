import { UsageError } from "../domain/errors.ts";

/** Embedded stores have files larger than this, and one that cannot grow any more looks damaged at the next start. */
const SMALLEST_FILE_BYTES = 2 ** 30;
/** The map of the embedded log's index, and 23 GiB that a whole relay takes besides. */
const MIN_ADDRESS_BYTES = 288 * 2 ** 30;

/** @throws {UsageError} when the files of this process may not grow */
export function refuseSmallFiles(): void {
  const maxBytes = readLimits()?.file_size_blocks?.soft;
  if (typeof maxBytes === "number" && maxBytes < SMALLEST_FILE_BYTES)
    throw new UsageError(
      `this process may write files of ${maxBytes} bytes only, and embedded stores have larger ones: raise the limit (ulimit -f), or set DATABASE_URL, KAFKA_BROKERS and CLICKHOUSE_URL`,
    );
}

/** Looks first, since a map that cannot be made ends the whole process. @throws {UsageError} when there is no room for it */
export function refuseSmallAddressSpace(): void {
  const maxBytes = readLimits()?.virtual_memory_kbytes?.soft;
  if (typeof maxBytes === "number" && maxBytes < MIN_ADDRESS_BYTES)
    throw new UsageError(
      `this process may use ${maxBytes} bytes of address space only, and the embedded log maps 256 GiB (which takes no memory): lift the limit (ulimit -v), or set KAFKA_BROKERS`,
    );
}

interface Limit {
  readonly soft: number | "unlimited";
}

interface Report {
  // In bytes, whatever their names say.
  readonly userLimits?: {
    readonly file_size_blocks?: Limit;
    readonly virtual_memory_kbytes?: Limit;
  };
}

/** Reads the report without networks: with them, Node asks for the name of every address listened on, and waits for DNS. */
function readLimits(): Report["userLimits"] {
  const report: typeof process.report & { excludeNetwork?: boolean } = process.report;
  const { excludeNetwork = false } = report;
  report.excludeNetwork = true;
  try {
    return (report.getReport() as Report).userLimits;
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}
