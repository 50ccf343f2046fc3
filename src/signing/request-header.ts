import type { HeaderList } from "../domain/event.ts";
import { trimOptionalSpace } from "../domain/optional-space.ts";

export type HeaderLookup =
  | { readonly kind: "one"; readonly value: string }
  | { readonly kind: "none" }
  | { readonly kind: "many" };

const NONE: HeaderLookup = { kind: "none" };
const MANY: HeaderLookup = { kind: "many" };

/**
 * Finds a header by its lower-case name. Two of one name are "many", even when equal: which of them another
 * program would believe is anybody's guess. Optional white space around a value is not part of it (RFC 9110 §5.5).
 */
export function findHeader(headers: HeaderList, lowerName: string): HeaderLookup {
  let found: string | null = null;
  for (const [name, value] of headers) {
    if (name.length !== lowerName.length || name.toLowerCase() !== lowerName) continue;
    if (found !== null) return MANY;
    found = value;
  }
  return found === null ? NONE : { kind: "one", value: trimOptionalSpace(found) };
}

/** Returns all values of a header in arrival order. */
export function allHeaderValues(headers: HeaderList, lowerName: string): string[] {
  return headers.filter(([name]) => name.toLowerCase() === lowerName).map(([, value]) => value);
}
