import { UniqueViolation } from "../domain/config-store.ts";
import { RelayError } from "../domain/errors.ts";
import { noteWrite } from "./audit.ts";
import { changesOf } from "./changes-of.ts";
import type { Management, Project } from "./management.ts";
import { found } from "./not-found.ts";
import { toOffset } from "./pages.ts";
import type { ManagementPorts } from "./ports.ts";
import { slugOf } from "./slug.ts";

type ProjectPorts = Pick<ManagementPorts, "store" | "now" | "random" | "newId">;

export function makeProjects({ store, now, random, newId }: ProjectPorts): Management["projects"] {
  return {
    async list(actor, page) {
      return store.projects.page(actor.orgId, null, toOffset(page));
    },
    async get(actor, id) {
      return found(await store.projects.find(actor.orgId, id), "project");
    },
    async create(actor, input) {
      const createdAtMs = now();
      const row: Project = {
        id: newId("project", createdAtMs),
        orgId: actor.orgId,
        name: input.name,
        slug: slugOf(input.name, random),
        createdAtMs,
      };
      await refuseTakenSlug(row.slug, async () =>
        store.write(async (session) => {
          await session.projects.insert(row);
          await noteWrite(session, actor, "project.create", row.id, createdAtMs);
        }),
      );
      return row;
    },
    async update(actor, id, input) {
      const { name, slug } = input;
      return refuseTakenSlug(slug ?? "", async () =>
        store.write(async (session) => {
          const row = found(await session.projects.lock(actor.orgId, id), "project");
          const changes = changesOf(row, { name, slug });
          const fields = Object.keys(changes);
          if (fields.length === 0) return row;
          await session.projects.update(actor.orgId, id, changes);
          await noteWrite(session, actor, "project.update", id, now(), { fields });
          return { ...row, ...changes };
        }),
      );
    },
    async remove(actor, id) {
      await store.write(async (session) => {
        found(await session.projects.lock(actor.orgId, id), "project");
        const endpoints = await session.endpoints.page(actor.orgId, id, { offset: 0, limit: 1 });
        if (endpoints.total > 0)
          throw new RelayError(
            "project_not_empty",
            `Project still has ${endpoints.total} endpoint${endpoints.total === 1 ? "" : "s"}: delete them first`,
          );
        const atMs = now();
        await session.projects.remove(actor.orgId, id, atMs);
        await noteWrite(session, actor, "project.delete", id, atMs);
      });
    },
  };
}

async function refuseTakenSlug<T>(slug: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof UniqueViolation && error.constraint === "projects_slug")
      throw new RelayError("slug_taken", `A project with the slug "${slug}" already exists`, {
        cause: error,
      });
    throw error;
  }
}
