import type { z } from "@hono/zod-openapi";
import type { EventFilter } from "../domain/event-query.ts";
import type { FacetsQuery } from "./schemas/query.ts";

/** The latest time that every store's date type can hold; no event is later. */
const LATEST_MS = Date.UTC(2200, 0);

/** Converts the query parameters of `/events` and the facets to the read side's filter. */
export function toEventFilter(query: z.output<typeof FacetsQuery>): EventFilter {
  return {
    ...(query.endpoint_id === undefined ? {} : { endpointId: query.endpoint_id }),
    ...(query.provider === undefined ? {} : { provider: query.provider }),
    ...(query.signature_valid === undefined
      ? {}
      : { signatureValid: query.signature_valid === "true" }),
    ...(query.from === undefined ? {} : { fromMs: bound(query.from) }),
    ...(query.to === undefined ? {} : { toMs: bound(query.to) }),
    ...(query.q === undefined ? {} : { q: query.q }),
    ...(query.field === undefined || query.value === undefined
      ? {}
      : { field: { path: query.field, value: query.value } }),
    ...(query.attempt_status === undefined ? {} : { attemptStatus: query.attempt_status }),
    ...(query.destination_id === undefined ? {} : { destinationId: query.destination_id }),
  };
}

function bound(timeMs: number): number {
  return Math.min(Math.max(timeMs, 0), LATEST_MS);
}
