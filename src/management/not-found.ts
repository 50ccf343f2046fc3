import { RelayError } from "../domain/errors.ts";

export type ResourceName = "Project" | "Endpoint" | "Destination" | "Event";

/** The same answer for what is unknown, deleted, or another organization's. */
function notFound(resource: ResourceName): RelayError {
  return new RelayError("not_found", `${resource} not found`);
}

/** @throws {RelayError} `not_found` */
export function found<T>(row: T | null, resource: ResourceName): T {
  if (row === null) throw notFound(resource);
  return row;
}
