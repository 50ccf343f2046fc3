import { RelayError } from "../domain/errors.ts";
import type { IdKind } from "../domain/ids.ts";

/** Returns the same message for what is unknown, deleted, or another organization's. */
export function notFoundMessage(kind: IdKind): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)} not found`;
}

/** @throws {RelayError} `not_found` */
export function found<T>(row: T | null, kind: IdKind): T {
  if (row === null) throw new RelayError("not_found", notFoundMessage(kind));
  return row;
}
