import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";

export const deleteProject = defineOperation({
  operationId: "deleteProject",
  method: "delete",
  path: "/projects/{id}",
  tag: "Projects",
  summary: "Delete a project",
  description: "Refused while the project still has endpoints that are not deleted.",
  scope: "write",
  ids: { id: "project" },
  query: noQuery,
  body: noBody,
  success: { status: 204, description: "Deleted.", schema: null },
  errors: ["project_not_empty"],
  async handle({ actor, management, ids }) {
    await management.projects.remove(actor, ids.id);
    return undefined;
  },
});
