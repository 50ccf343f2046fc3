import { z } from "@hono/zod-openapi";
import { defineOperation } from "../operation.ts";
import { answerPage } from "../pagination.ts";
import { presentEndpoint } from "../presenters/present-resources.ts";
import { noBody } from "../schemas/common.ts";
import { EndpointSchema } from "../schemas/endpoint.ts";
import { PagingQuery } from "../schemas/query.ts";

export const listEndpoints = defineOperation({
  operationId: "listEndpoints",
  method: "get",
  path: "/projects/{projectId}/endpoints",
  tag: "Endpoints",
  summary: "List endpoints",
  description: "The project's endpoints, newest first.",
  scope: "read",
  ids: { projectId: "project" },
  query: PagingQuery,
  body: noBody,
  success: {
    status: 200,
    description: "A page of them.",
    schema: z.array(EndpointSchema),
    paginated: true,
  },
  errors: [],
  async handle({ actor, management, ids, query }) {
    return answerPage(
      query,
      (page) => management.endpoints.list(actor, ids.projectId, page),
      presentEndpoint,
    );
  },
});
