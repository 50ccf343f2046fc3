import type { z } from "@hono/zod-openapi";
import type { EventFilter } from "../domain/event-query.ts";
import type { FacetsQuery } from "./schemas/query.ts";
import { withoutUndefined } from "./without-undefined.ts";

/** The latest time that every store's date type can hold; no event is later. */
const LATEST_MS = Date.UTC(2200, 0);

/** Converts the query parameters of `/events` and the facets to the read side's filter. */
export function toEventFilter(query: z.output<typeof FacetsQuery>): EventFilter {
  const { signature_valid: valid, from, to, field, value } = query;
  return withoutUndefined({
    endpointId: query.endpoint_id,
    provider: query.provider,
    signatureValid: valid === undefined ? undefined : valid === "true",
    fromMs: from === undefined ? undefined : bound(from),
    toMs: to === undefined ? undefined : bound(to),
    q: query.q,
    field: field === undefined || value === undefined ? undefined : { path: field, value },
    attemptStatus: query.attempt_status,
    destinationId: query.destination_id,
  });
}

function bound(timeMs: number): number {
  return Math.min(Math.max(timeMs, 0), LATEST_MS);
}
