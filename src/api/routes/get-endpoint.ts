import { defineOperation } from "../operation.ts";
import { presentEndpoint } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { EndpointSchema } from "../schemas/endpoint.ts";

export const getEndpoint = defineOperation({
  operationId: "getEndpoint",
  method: "get",
  path: "/endpoints/{id}",
  tag: "Endpoints",
  summary: "Get an endpoint",
  description: "One endpoint. Its secret and verification settings are never returned.",
  scope: "read",
  ids: { id: "endpoint" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The endpoint.", schema: EndpointSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentEndpoint(await management.endpoints.get(actor, ids.id)) };
  },
});
