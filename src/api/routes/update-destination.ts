import { toDestinationInput } from "../destination-input.ts";
import { defineOperation } from "../operation.ts";
import { presentDestination } from "../presenters/present-resources.ts";
import { noQuery } from "../schemas/common.ts";
import { DestinationSchema, DestinationUpdateSchema } from "../schemas/destination.ts";

export const updateDestination = defineOperation({
  operationId: "updateDestination",
  method: "patch",
  path: "/destinations/{id}",
  tag: "Destinations",
  summary: "Change a destination",
  description:
    "Changes what is given. Takes up to 60 s to affect deliveries; one that already waits for its retry keeps its time.",
  scope: "write",
  ids: { id: "destination" },
  query: noQuery,
  body: DestinationUpdateSchema,
  success: { status: 200, description: "The changed destination.", schema: DestinationSchema },
  waitsElsewhere: true,
  errors: [],
  async handle({ actor, management, ids, body, inTurn }) {
    const destination = await management.destinations.update(
      actor,
      ids.id,
      toDestinationInput(body),
      inTurn,
    );
    return { data: presentDestination(destination) };
  },
});
