import { toDestinationInput } from "../destination-input.ts";
import { defineOperation } from "../operation.ts";
import { presentDestination } from "../presenters/present-resources.ts";
import { noQuery } from "../schemas/common.ts";
import { CreatedDestinationSchema, DestinationCreateSchema } from "../schemas/destination.ts";

export const createDestination = defineOperation({
  operationId: "createDestination",
  method: "post",
  path: "/endpoints/{endpointId}/destinations",
  tag: "Destinations",
  summary: "Create a destination",
  description:
    "A receiver URL for the accepted events of the endpoint. Starts receiving within 60 s. Answers its service_secret once. rate_limit_max and rate_limit_window go together.",
  scope: "write",
  ids: { endpointId: "endpoint" },
  query: noQuery,
  body: DestinationCreateSchema,
  success: {
    status: 201,
    description: "The new destination, with its secret.",
    schema: CreatedDestinationSchema,
  },
  waitsElsewhere: true,
  errors: [],
  async handle({ actor, management, ids, body, inTurn }) {
    const input = {
      ...toDestinationInput(body),
      name: body.name,
      receiverUrl: body.receiver_url,
    };
    const created = await management.destinations.create(actor, ids.endpointId, input, inTurn);
    return {
      data: {
        ...presentDestination(created.destination),
        service_secret: created.serviceSecret,
      },
    };
  },
});
