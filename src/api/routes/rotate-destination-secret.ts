import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { DestinationSecretSchema } from "../schemas/destination.ts";

export const rotateDestinationSecret = defineOperation({
  operationId: "rotateDestinationSecret",
  method: "post",
  path: "/destinations/{id}/rotate-secret",
  tag: "Destinations",
  summary: "Rotate the delivery-signing secret",
  description:
    "Answers the new secret once. Takes up to 60 s to affect deliveries, which then carry the signatures of the new and of the previous secret for the rotation overlap.",
  scope: "write",
  ids: { id: "destination" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The new secret.", schema: DestinationSecretSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    const rotated = await management.destinations.rotateSecret(actor, ids.id);
    return { data: { id: rotated.id, service_secret: rotated.serviceSecret } };
  },
});
