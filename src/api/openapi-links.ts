import type { IdKind } from "../domain/ids.ts";
import type { AnyOperation } from "./operation.ts";

/** Operations whose answer holds an id that others take, and where in the answer it is. */
const SOURCES: Readonly<Record<string, { readonly kind: IdKind; readonly pointer: string }>> = {
  createProject: { kind: "project", pointer: "/data/id" },
  createEndpoint: { kind: "endpoint", pointer: "/data/id" },
  createDestination: { kind: "destination", pointer: "/data/id" },
  testEndpoint: { kind: "event", pointer: "/data/event_id" },
  listEvents: { kind: "event", pointer: "/data/0/id" },
};

interface Link {
  readonly operationId: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/**
 * Returns the links from a success answer to every operation that takes its id (OpenAPI 3.1, 4.8.20), or null when it holds none.
 */
export function linksOf(
  operation: AnyOperation,
  all: readonly AnyOperation[],
): Record<string, Link> | null {
  const source = SOURCES[operation.operationId];
  if (source === undefined) return null;
  const links: Record<string, Link> = {};
  for (const target of all)
    for (const [name, kind] of Object.entries(target.ids))
      if (kind === source.kind)
        links[target.operationId] = {
          operationId: target.operationId,
          parameters: { [name]: `$response.body#${source.pointer}` },
        };
  return links;
}
