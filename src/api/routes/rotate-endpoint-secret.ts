import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { EndpointSecretSchema } from "../schemas/endpoint.ts";

export const rotateEndpointSecret = defineOperation({
  operationId: "rotateEndpointSecret",
  method: "post",
  path: "/endpoints/{id}/rotate-secret",
  tag: "Endpoints",
  summary: "Rotate the verification secret",
  description:
    "Answers the new secret once; the old one stops being accepted within 60 s. Stripe, Shopify and Linear issue their own secrets: after rotating, PATCH the endpoint with the one they show. Refused with 400 for none, ip_allowlist, twilio_signature, and jwt with asymmetric keys.",
  scope: "write",
  ids: { id: "endpoint" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The new secret.", schema: EndpointSecretSchema },
  errors: ["rotation_not_supported"],
  async handle({ actor, management, ids }) {
    return { data: await management.endpoints.rotateSecret(actor, ids.id) };
  },
});
