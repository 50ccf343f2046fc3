import { toEventFilter } from "../event-filter.ts";
import { defineOperation } from "../operation.ts";
import { presentFacets } from "../presenters/present-events.ts";
import { noBody } from "../schemas/common.ts";
import { FacetsSchema } from "../schemas/event.ts";
import { FacetsQuery } from "../schemas/query.ts";

export const countFacets = defineOperation({
  operationId: "countFacets",
  method: "get",
  path: "/events/facets",
  tag: "Events",
  summary: "Count events by facet",
  description: "Counts over the events that match the filters of the search.",
  scope: "read",
  ids: {},
  query: FacetsQuery,
  body: noBody,
  success: { status: 200, description: "The counts.", schema: FacetsSchema },
  errors: [],
  async handle({ actor, queries, query, signal }) {
    const counts = await queries.facets(actor.orgId, toEventFilter(query), signal);
    return { data: presentFacets(counts) };
  },
});
