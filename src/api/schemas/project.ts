import { z } from "@hono/zod-openapi";
import { EXAMPLE_TIME, exampleId, id, text, timestamp } from "./common.ts";

/** Bounded because slugs derive from names and are in a unique index. */
export const nameText = text(1, 255);

export const ProjectSchema = z
  .object({
    id: id("project"),
    org_id: id("organization"),
    name: z.string(),
    slug: z.string().openapi({ description: "Unique in the organization." }),
    created_at: timestamp,
  })
  .openapi("Project", {
    example: {
      id: exampleId("project"),
      org_id: exampleId("organization"),
      name: "Billing",
      slug: "billing",
      created_at: EXAMPLE_TIME,
    },
  });
export type ProjectView = z.infer<typeof ProjectSchema>;

export const ProjectCreateSchema = z
  .strictObject({ name: nameText })
  .openapi("ProjectCreate", { example: { name: "Billing" } });

export const ProjectUpdateSchema = z
  .strictObject({
    name: nameText,
    slug: text(1, 255)
      .regex(
        /^[a-z0-9][a-z0-9_-]*$/,
        "must hold only a-z, 0-9, - and _, and start with a-z or 0-9.",
      )
      .openapi({ pattern: "^[a-z0-9][a-z0-9_-]*$" }),
  })
  .partial()
  .openapi("ProjectUpdate", {
    example: { name: "Billing and invoices", slug: "billing-invoices" },
  });
