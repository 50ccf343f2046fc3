import { z } from "@hono/zod-openapi";
import { defineOperation } from "../operation.ts";
import { answerPage } from "../pagination.ts";
import { presentProject } from "../presenters/present-resources.ts";
import { noBody } from "../schemas/common.ts";
import { ProjectSchema } from "../schemas/project.ts";
import { PagingQuery } from "../schemas/query.ts";

export const listProjects = defineOperation({
  operationId: "listProjects",
  method: "get",
  path: "/projects",
  tag: "Projects",
  summary: "List projects",
  description: "The organization's projects, newest first.",
  scope: "read",
  ids: {},
  query: PagingQuery,
  body: noBody,
  success: {
    status: 200,
    description: "A page of them.",
    schema: z.array(ProjectSchema),
    paginated: true,
  },
  errors: [],
  async handle({ actor, management, query }) {
    return answerPage(query, (page) => management.projects.list(actor, page), presentProject);
  },
});
