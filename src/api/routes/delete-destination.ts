import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";

export const deleteDestination = defineOperation({
  operationId: "deleteDestination",
  method: "delete",
  path: "/destinations/{id}",
  tag: "Destinations",
  summary: "Delete a destination",
  description:
    "Soft delete; its pending deliveries end dead, normally within a minute, also those that wait for a retry or a rate limit.",
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
