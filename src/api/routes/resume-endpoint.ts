import { defineOperation } from "../operation.ts";
import { presentEndpoint } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { EndpointSchema } from "../schemas/endpoint.ts";

export const resumeEndpoint = defineOperation({
  operationId: "resumeEndpoint",
  method: "post",
  path: "/endpoints/{id}/resume",
  tag: "Endpoints",
  summary: "Resume an endpoint",
  description:
    "Back to active, from disabled too. Idempotent. Takes up to 60 s to affect incoming webhooks.",
  scope: "write",
  ids: { id: "endpoint" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The resumed endpoint.", schema: EndpointSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentEndpoint(await management.endpoints.resume(actor, ids.id)) };
  },
});
