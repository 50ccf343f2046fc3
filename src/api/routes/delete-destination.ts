import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";

export const deleteDestination = defineOperation({
  operationId: "deleteDestination",
  method: "delete",
  path: "/destinations/{id}",
  tag: "Destinations",
  summary: "Delete a destination",
  description:
    "Soft delete; its pending deliveries end dead, those that wait at the time they were put off to.",
  scope: "write",
  ids: { id: "destination" },
  query: noQuery,
  body: noBody,
  success: { status: 204, description: "Deleted.", schema: null },
  errors: [],
  async handle({ actor, management, ids }) {
    await management.destinations.remove(actor, ids.id);
    return undefined;
  },
});
