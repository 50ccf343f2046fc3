import { toEndpointInput } from "../endpoint-input.ts";
import { defineOperation } from "../operation.ts";
import { presentEndpoint } from "../presenters/present-resources.ts";
import { noQuery } from "../schemas/common.ts";
import { EndpointCreateSchema, EndpointSchema } from "../schemas/endpoint.ts";

export const createEndpoint = defineOperation({
  operationId: "createEndpoint",
  method: "post",
  path: "/projects/{projectId}/endpoints",
  tag: "Endpoints",
  summary: "Create an endpoint",
  description:
    "A public ingest address for the webhooks of one provider. New endpoints are active.",
  scope: "write",
  ids: { projectId: "project" },
  query: noQuery,
  body: EndpointCreateSchema,
  success: { status: 201, description: "The new endpoint.", schema: EndpointSchema },
  waitsElsewhere: true,
  errors: [],
  async handle({ actor, management, ids, body, inTurn }) {
    const input = { ...toEndpointInput(body), name: body.name, provider: body.provider };
    const endpoint = await management.endpoints.create(actor, ids.projectId, input, inTurn);
    return { data: presentEndpoint(endpoint) };
  },
});
