import type { HeaderList } from "../domain/event.ts";

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

/** All values of a header in arrival order. */
export function allHeaderValues(headers: HeaderList, lowerName: string): string[] {
  return headers.filter(([name]) => name.toLowerCase() === lowerName).map(([, value]) => value);
}

/** By index and not by pattern: a pattern anchored at the end is quadratic on runs of blanks. */
function trimOptionalSpace(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value.charCodeAt(start))) start += 1;
  while (end > start && isBlank(value.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === value.length ? value : value.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
