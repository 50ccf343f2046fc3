import type { ClickHouseClient } from "@clickhouse/client";

/** Values for the names that a statement writes as `{name:Type}`. */
export type QueryParameters = Readonly<Record<string, QueryParameter>>;
export type QueryParameter = string | number | boolean | readonly string[];
export type QuerySettings = Readonly<Record<string, string | number>>;

/**
 * Sends a statement that reads; resolves once all of its rows have arrived.
 * @throws {ClickHouseError} when the server refuses; another error when it does not answer
 */
export type Ask = <Row>(
  query: string,
  parameters: QueryParameters,
  settings: QuerySettings,
  signal: AbortSignal,
) => Promise<Row[]>;

/** Sends a statement that reads, with the server's own limits: for migrations. */
export async function selectRows<Row>(
  client: ClickHouseClient,
  query: string,
  parameters: QueryParameters = {},
): Promise<Row[]> {
  const answer = await client.query({ query, query_params: parameters, format: "JSONEachRow" });
  return answer.json();
}

export function askByDriver(client: ClickHouseClient): Ask {
  return async (query, parameters, settings, signal) => {
    const answer = await client.query({
      query,
      query_params: parameters,
      format: "JSONEachRow",
      abort_signal: signal,
      clickhouse_settings: settings,
    });
    signal.addEventListener("abort", () => answer.close());
    return await answer.json();
  };
}
