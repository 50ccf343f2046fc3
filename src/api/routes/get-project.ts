import { defineOperation } from "../operation.ts";
import { presentProject } from "../presenters/present-resources.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { ProjectSchema } from "../schemas/project.ts";

export const getProject = defineOperation({
  operationId: "getProject",
  method: "get",
  path: "/projects/{id}",
  tag: "Projects",
  summary: "Get a project",
  description: "One project.",
  scope: "read",
  ids: { id: "project" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The project.", schema: ProjectSchema },
  errors: [],
  async handle({ actor, management, ids }) {
    return { data: presentProject(await management.projects.get(actor, ids.id)) };
  },
});
