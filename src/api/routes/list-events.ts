import { z } from "@hono/zod-openapi";
import { toEventFilter } from "../event-filter.ts";
import { defineOperation } from "../operation.ts";
import { answerPage } from "../pagination.ts";
import { presentEvent } from "../presenters/present-events.ts";
import { noBody } from "../schemas/common.ts";
import { EventSchema } from "../schemas/event.ts";
import { EventsQuery } from "../schemas/query.ts";

export const listEvents = defineOperation({
  operationId: "listEvents",
  method: "get",
  path: "/events",
  tag: "Events",
  summary: "Search events",
  description:
    "Accepted and rejected webhooks, newest first. All filters are and-ed. An unknown query parameter is 400: a mistyped filter must not return everything.",
  scope: "read",
  ids: {},
  query: EventsQuery,
  body: noBody,
  success: {
    status: 200,
    description: "A page of them.",
    schema: z.array(EventSchema),
    paginated: true,
  },
  errors: [],
  async handle({ actor, queries, query, signal }) {
    const filter = toEventFilter(query);
    const withDeliveries = query.delivery_summary === "true";
    return answerPage(
      query,
      ({ page, limit }) =>
        queries.list(
          actor.orgId,
          filter,
          { offset: (page - 1) * limit, limit },
          withDeliveries,
          signal,
        ),
      presentEvent,
    );
  },
});
