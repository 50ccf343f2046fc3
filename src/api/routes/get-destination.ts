import { defineOperation } from "../operation.ts";
import { presentDestination } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { DestinationSchema } from "../schemas/destination.ts";

export const getDestination = defineOperation({
  operationId: "getDestination",
  method: "get",
  path: "/destinations/{id}",
  tag: "Destinations",
  summary: "Get a destination",
  description: "One destination.",
  scope: "read",
  ids: { id: "destination" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The destination.", schema: DestinationSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentDestination(await management.destinations.get(actor, ids.id)) };
  },
});
