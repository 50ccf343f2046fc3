import type { BundleReader, DestinationRow, EndpointRow } from "../../domain/config-store.ts";
import type { Database } from "./database.ts";
import { DESTINATIONS, ENDPOINTS, makePrefixedReader, prefixedColumns } from "./rows.ts";

/**
 * The endpoint's columns stand in the row of its first destination only: with a configuration of 64 KiB in each row of thousands, the
 * answer has hundreds of megabytes.
 *
 * `row_number` also keeps the planner from reading all destinations for each endpoint, which it would take for cheaper while it thinks
 * that the table is all but empty: it goes on with that plan until the table is next analyzed.
 */
const SELECT_BUNDLES_SQL = `
  SELECT ${prefixedColumns(ENDPOINTS, "e")}, ${prefixedColumns(DESTINATIONS, "d")}
  FROM endpoints named
  LEFT JOIN LATERAL (
    SELECT *, row_number() OVER (ORDER BY created_at, id) AS place
    FROM destinations WHERE endpoint_id = named.id AND deleted_at IS NULL
  ) d ON true
  LEFT JOIN LATERAL (SELECT named.* WHERE d.place IS NULL OR d.place = 1) e ON true
  WHERE named.deleted_at IS NULL AND named.id IN (
    SELECT id FROM endpoints WHERE token = ANY($1)
    UNION SELECT unnest($2::text[])
    UNION SELECT endpoint_id FROM destinations WHERE id = ANY($3))
  ORDER BY named.id, d.place`;

const SELECT_NEWEST_SQL =
  "SELECT id FROM endpoints WHERE deleted_at IS NULL ORDER BY id DESC LIMIT $1";

const toEndpoint = makePrefixedReader(ENDPOINTS, "e");
const toDestination = makePrefixedReader(DESTINATIONS, "d");

/** Makes a reader of endpoints with their destinations, for ingest and delivery: one statement, so all are of one moment. */
export function makeBundleReader(database: Database): BundleReader {
  return {
    async bundles(keys) {
      const rows = await database.run(SELECT_BUNDLES_SQL, [
        keys.tokens,
        keys.endpointIds,
        keys.destinationIds,
      ]);
      const bundles: { endpoint: EndpointRow; destinations: DestinationRow[] }[] = [];
      for (const row of rows) {
        if (row["e_id"] !== null) bundles.push({ endpoint: toEndpoint(row), destinations: [] });
        if (row["d_id"] !== null) bundles.at(-1)?.destinations.push(toDestination(row));
      }
      return bundles;
    },
    async newestEndpoints(count) {
      const rows = await database.run(SELECT_NEWEST_SQL, [count]);
      return rows.map((row) => row["id"] as string);
    },
  };
}
