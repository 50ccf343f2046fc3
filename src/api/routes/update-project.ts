import { defineOperation } from "../operation.ts";
import { presentProject } from "../presenters/present-resources.ts";
import { noQuery } from "../schemas/common.ts";
import { ProjectUpdateSchema, ProjectSchema } from "../schemas/project.ts";

export const updateProject = defineOperation({
  operationId: "updateProject",
  method: "patch",
  path: "/projects/{id}",
  tag: "Projects",
  summary: "Change a project",
  description: "Changes what is given; the slug does not follow the name.",
  scope: "write",
  ids: { id: "project" },
  query: noQuery,
  body: ProjectUpdateSchema,
  success: { status: 200, description: "The changed project.", schema: ProjectSchema },
  errors: ["slug_taken"],
  async handle({ actor, management, ids, body }) {
    return { data: presentProject(await management.projects.update(actor, ids.id, body)) };
  },
});
