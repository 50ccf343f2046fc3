import { defineOperation } from "../operation.ts";
import { presentDestination } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { DestinationSchema } from "../schemas/destination.ts";

export const pauseDestination = defineOperation({
  operationId: "pauseDestination",
  method: "post",
  path: "/destinations/{id}/pause",
  tag: "Destinations",
  summary: "Pause a destination",
  description:
    "Holds its pending deliveries; events that arrive meanwhile are not fanned out to it. Idempotent. Takes up to 60 s to affect deliveries.",
  scope: "write",
  ids: { id: "destination" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The paused destination.", schema: DestinationSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentDestination(await management.destinations.pause(actor, ids.id)) };
  },
});
