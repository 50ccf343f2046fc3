import { defineOperation } from "../operation.ts";
import { presentProject } from "../presenters/present-resources.ts";
import { noQuery } from "../schemas/common.ts";
import { ProjectCreateSchema, ProjectSchema } from "../schemas/project.ts";

export const createProject = defineOperation({
  operationId: "createProject",
  method: "post",
  path: "/projects",
  tag: "Projects",
  summary: "Create a project",
  description:
    "The slug derives from the name: lower case, each run of characters other than a-z and 0-9 becomes one hyphen, none at the ends; `project-` and six random characters where nothing is left. 409 where that slug is taken.",
  scope: "write",
  ids: {},
  query: noQuery,
  body: ProjectCreateSchema,
  success: { status: 201, description: "The new project.", schema: ProjectSchema },
  errors: ["slug_taken"],
  async handle({ actor, management, body }) {
    return { data: presentProject(await management.projects.create(actor, body)) };
  },
});
