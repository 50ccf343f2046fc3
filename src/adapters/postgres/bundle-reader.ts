import type { BundleReader, DestinationRow, EndpointBundle } from "../../domain/config-store.ts";
import type { Database } from "./database.ts";
import { DESTINATIONS, ENDPOINTS, prefixedColumns, unprefixed } from "./rows.ts";

/**
 * `OFFSET 0` keeps the planner from reading all destinations for each endpoint, which it would take for cheaper while it thinks that
 * the table is all but empty: it goes on with that plan until the table is next analyzed.
 */
const SELECT_BUNDLES_SQL = `
  SELECT ${prefixedColumns(ENDPOINTS, "e")}, ${prefixedColumns(DESTINATIONS, "d")}
  FROM endpoints e
  LEFT JOIN LATERAL (
    SELECT * FROM destinations WHERE endpoint_id = e.id AND deleted_at IS NULL OFFSET 0
  ) d ON true
  WHERE e.deleted_at IS NULL AND e.id IN (
    SELECT id FROM endpoints WHERE token = ANY($1)
    UNION SELECT unnest($2::text[])
    UNION SELECT endpoint_id FROM destinations WHERE id = ANY($3))
  ORDER BY e.id, d.created_at, d.id`;

const SELECT_NEWEST_SQL =
  "SELECT id FROM endpoints WHERE deleted_at IS NULL ORDER BY id DESC LIMIT $1";

/** Makes a reader of endpoints with their destinations, for ingest and delivery: one statement, so all are of one moment. */
export function makeBundleReader(database: Database): BundleReader {
  return {
    async bundles(keys) {
      const rows = await database.run(SELECT_BUNDLES_SQL, [
        keys.tokens,
        keys.endpointIds,
        keys.destinationIds,
      ]);
      const bundles = new Map<
        string,
        { endpoint: EndpointBundle["endpoint"]; destinations: DestinationRow[] }
      >();
      for (const row of rows) {
        const id = row["e_id"] as string;
        let bundle = bundles.get(id);
        if (bundle === undefined) {
          bundle = { endpoint: ENDPOINTS.toRow(unprefixed(row, "e")), destinations: [] };
          bundles.set(id, bundle);
        }
        if (row["d_id"] !== null)
          bundle.destinations.push(DESTINATIONS.toRow(unprefixed(row, "d")));
      }
      return [...bundles.values()];
    },
    async newestEndpoints(count) {
      const rows = await database.run(SELECT_NEWEST_SQL, [count]);
      return rows.map((row) => row["id"] as string);
    },
  };
}
