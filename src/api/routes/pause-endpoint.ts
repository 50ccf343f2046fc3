import { defineOperation } from "../operation.ts";
import { presentEndpoint } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { EndpointSchema } from "../schemas/endpoint.ts";

export const pauseEndpoint = defineOperation({
  operationId: "pauseEndpoint",
  method: "post",
  path: "/endpoints/{id}/pause",
  tag: "Endpoints",
  summary: "Pause an endpoint",
  description:
    "Incoming webhooks are answered 409 and still recorded. Idempotent. Takes up to 60 s to affect incoming webhooks.",
  scope: "write",
  ids: { id: "endpoint" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The paused endpoint.", schema: EndpointSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentEndpoint(await management.endpoints.pause(actor, ids.id)) };
  },
});
