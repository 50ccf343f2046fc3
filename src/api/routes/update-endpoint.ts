import { toEndpointInput } from "../endpoint-input.ts";
import { defineOperation } from "../operation.ts";
import { presentEndpoint } from "../presenters/present-resources.ts";
import { noQuery } from "../schemas/common.ts";
import { EndpointUpdateSchema, EndpointSchema } from "../schemas/endpoint.ts";

export const updateEndpoint = defineOperation({
  operationId: "updateEndpoint",
  method: "patch",
  path: "/endpoints/{id}",
  tag: "Endpoints",
  summary: "Change an endpoint",
  description:
    "Changes what is given; verification_config is replaced as a whole. A change to a known provider without a verification_method takes that provider's scheme. Where the scheme changes and no verification_config is given, settings that do not fit the new one are dropped. Takes up to 60 s to affect incoming webhooks.",
  scope: "write",
  ids: { id: "endpoint" },
  query: noQuery,
  body: EndpointUpdateSchema,
  success: { status: 200, description: "The changed endpoint.", schema: EndpointSchema },
  waitsElsewhere: true,
  errors: [],
  async handle({ actor, management, ids, body, inTurn }) {
    const endpoint = await management.endpoints.update(
      actor,
      ids.id,
      toEndpointInput(body),
      inTurn,
    );
    return { data: presentEndpoint(endpoint) };
  },
});
