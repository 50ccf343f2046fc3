import type { Ask, QueryParameters, QuerySettings } from "./ask.ts";
import { withReadDeadline } from "./read-deadline.ts";
import { ReadShares } from "./read-shares.ts";
import { toStoreError } from "./store-error.ts";

export interface QueryLimits {
  /** Longest a query may run; beyond it the answer is an error, never a partial result. */
  readonly maxSeconds: number;
  readonly maxMemoryBytes: number;
  /** Questions that the store answers at once, shared among the organizations. */
  readonly maxAtOnce: number;
}

/** Sends a statement that reads. @throws {EventStoreError} */
export type Select = <Row>(
  query: string,
  parameters: QueryParameters,
  settings?: QuerySettings,
  signal?: AbortSignal,
) => Promise<Row[]>;

/**
 * Equal keys mean equal events, so rows may be dropped before duplicates are collapsed. Not so for attempts, whose status
 * may differ between duplicates: their statements filter after FINAL themselves.
 */
const READ_SETTINGS = {
  readonly: "2",
  do_not_merge_across_partitions_select_final: 1,
  use_skip_indexes_if_final: 1,
  use_skip_indexes_if_final_exact_mode: 0,
  max_result_rows: "1000000",
  result_overflow_mode: "throw",
  timeout_overflow_mode: "throw",
  distributed_product_mode: "local",
  cancel_http_readonly_queries_on_client_close: 1,
} as const;

/** Makes the function that reads within the limits, and what is asked for an organization within its share. */
export function makeLimitedSelect(
  ask: Ask,
  { maxSeconds, maxMemoryBytes, maxAtOnce }: QueryLimits,
): Select {
  const shares = new ReadShares(maxAtOnce);
  return async <Row>(
    query: string,
    parameters: QueryParameters,
    settings: QuerySettings = {},
    signal?: AbortSignal,
  ): Promise<Row[]> => {
    try {
      const { org_id: orgId } = parameters;
      const all = {
        ...READ_SETTINGS,
        max_execution_time: maxSeconds,
        max_memory_usage: maxMemoryBytes,
        ...settings,
      };
      return await withReadDeadline(maxSeconds, signal, (ended, began) => {
        const begin = (): Promise<Row[]> => {
          began();
          return ask<Row>(query, parameters, all, ended);
        };
        return typeof orgId === "string" ? shares.run(orgId, ended, begin) : begin();
      });
    } catch (error) {
      throw toStoreError(error);
    }
  };
}
