import { z } from "@hono/zod-openapi";
import { defineOperation } from "../operation.ts";
import { answerPage } from "../pagination.ts";
import { presentDestination } from "../presenters/present-resources.ts";
import { noBody } from "../schemas/common.ts";
import { DestinationSchema } from "../schemas/destination.ts";
import { PagingQuery } from "../schemas/query.ts";

export const listDestinations = defineOperation({
  operationId: "listDestinations",
  method: "get",
  path: "/endpoints/{endpointId}/destinations",
  tag: "Destinations",
  summary: "List destinations",
  description: "The endpoint's destinations, newest first.",
  scope: "read",
  ids: { endpointId: "endpoint" },
  query: PagingQuery,
  body: noBody,
  success: {
    status: 200,
    description: "A page of them.",
    schema: z.array(DestinationSchema),
    paginated: true,
  },
  errors: [],
  async handle({ actor, management, ids, query }) {
    return answerPage(
      query,
      (page) => management.destinations.list(actor, ids.endpointId, page),
      presentDestination,
    );
  },
});
