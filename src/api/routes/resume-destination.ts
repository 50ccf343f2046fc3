import { defineOperation } from "../operation.ts";
import { presentDestination } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { DestinationSchema } from "../schemas/destination.ts";

export const resumeDestination = defineOperation({
  operationId: "resumeDestination",
  method: "post",
  path: "/destinations/{id}/resume",
  tag: "Destinations",
  summary: "Resume a destination",
  description:
    "Back to active, from disabled too; held deliveries continue at its pace. Idempotent. Takes up to 60 s to affect deliveries.",
  scope: "write",
  ids: { id: "destination" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The resumed destination.", schema: DestinationSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentDestination(await management.destinations.resume(actor, ids.id)) };
  },
});
