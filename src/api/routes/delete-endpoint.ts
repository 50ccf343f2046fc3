import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";

export const deleteEndpoint = defineOperation({
  operationId: "deleteEndpoint",
  method: "delete",
  path: "/endpoints/{id}",
  tag: "Endpoints",
  summary: "Delete an endpoint",
  description:
    "Soft delete: its ingest URL and its destinations answer 404, pending deliveries end dead, its events stay readable. Takes up to 60 s to affect incoming webhooks.",
  scope: "write",
  ids: { id: "endpoint" },
  query: noQuery,
  body: noBody,
  success: { status: 204, description: "Deleted.", schema: null },
  errors: [],
  async handle({ actor, management, ids }) {
    await management.endpoints.remove(actor, ids.id);
    return undefined;
  },
});
