import type { DestinationRow, EndpointRow, ProjectRow } from "../../domain/config-store.ts";
import type {
  Provider,
  RateLimitWindow,
  ResourceStatus,
  RetryBackoff,
  VerificationMethod,
} from "../../domain/enums.ts";
import type { SqlRow } from "./database.ts";
import type { TableLayout } from "./tenant-table.ts";

export const PROJECTS: TableLayout<ProjectRow> = {
  table: "projects",
  columns: { name: "name", slug: "slug", createdAtMs: "created_at" },
  parentColumn: null,
  toRow: (row) => ({
    id: row["id"] as string,
    orgId: row["org_id"] as string,
    name: row["name"] as string,
    slug: row["slug"] as string,
    createdAtMs: toMs(row["created_at"]),
  }),
};

export const ENDPOINTS: TableLayout<EndpointRow> = {
  table: "endpoints",
  columns: {
    projectId: "project_id",
    token: "token",
    name: "name",
    provider: "provider",
    verificationMethod: "verification_method",
    methodIsExplicit: "method_is_explicit",
    status: "status",
    sealed: "sealed",
    createdAtMs: "created_at",
    updatedAtMs: "updated_at",
  },
  parentColumn: "project_id",
  toRow: (row) => ({
    id: row["id"] as string,
    orgId: row["org_id"] as string,
    projectId: row["project_id"] as string,
    token: row["token"] as string,
    name: row["name"] as string,
    provider: row["provider"] as Provider,
    verificationMethod: row["verification_method"] as VerificationMethod,
    methodIsExplicit: row["method_is_explicit"] as boolean,
    status: row["status"] as ResourceStatus,
    sealed: row["sealed"] as Uint8Array,
    createdAtMs: toMs(row["created_at"]),
    updatedAtMs: toMs(row["updated_at"]),
  }),
};

export const DESTINATIONS: TableLayout<DestinationRow> = {
  table: "destinations",
  columns: {
    endpointId: "endpoint_id",
    name: "name",
    receiverUrl: "receiver_url",
    forwardOriginalSignature: "forward_original_signature",
    status: "status",
    retryMaxAttempts: "retry_max_attempts",
    retryBackoff: "retry_backoff",
    rateLimitMax: "rate_limit_max",
    rateLimitWindow: "rate_limit_window",
    sealed: "sealed",
    createdAtMs: "created_at",
    updatedAtMs: "updated_at",
  },
  parentColumn: "endpoint_id",
  toRow: (row) => ({
    id: row["id"] as string,
    orgId: row["org_id"] as string,
    endpointId: row["endpoint_id"] as string,
    name: row["name"] as string,
    receiverUrl: row["receiver_url"] as string,
    forwardOriginalSignature: row["forward_original_signature"] as boolean,
    status: row["status"] as ResourceStatus,
    retryMaxAttempts: row["retry_max_attempts"] as number,
    retryBackoff: row["retry_backoff"] as RetryBackoff,
    // bigint arrives as text
    rateLimitMax: row["rate_limit_max"] === null ? null : Number(row["rate_limit_max"]),
    rateLimitWindow: row["rate_limit_window"] as RateLimitWindow | null,
    sealed: row["sealed"] as Uint8Array,
    createdAtMs: toMs(row["created_at"]),
    updatedAtMs: toMs(row["updated_at"]),
  }),
};

export function toMs(value: unknown): number {
  if (!(value instanceof Date)) throw new Error("a timestamptz column did not arrive as a Date");
  return value.getTime();
}

/** Returns the column list of a table for a join: qualified, and with a prefix on each name. */
export function prefixedColumns<Row>(layout: TableLayout<Row>, alias: string): string {
  return columnsOf(layout)
    .map((column) => `${alias}.${column} AS ${alias}_${column}`)
    .join(", ");
}

/** Makes the function that reads one table's row out of a join made with `prefixedColumns`. */
export function makePrefixedReader<Row>(
  { toRow, ...layout }: TableLayout<Row>,
  alias: string,
): (row: SqlRow) => Row {
  const names = columnsOf(layout).map((column) => [column, `${alias}_${column}`] as const);
  return (row) => {
    const own: Record<string, unknown> = {};
    for (const [column, name] of names) own[column] = row[name];
    return toRow(own);
  };
}

function columnsOf({ columns }: Pick<TableLayout<unknown>, "columns">): readonly string[] {
  return ["id", "org_id", ...Object.values<string>(columns)];
}
