import { asciiLower } from "../../domain/searchable-leaf.ts";

/** The white-space separated terms of `q`, in ASCII lower case, each once. Empty when `q` is only white space. */
export function searchTerms(q: string): readonly string[] {
  return [...new Set(q.split(/\s+/u).filter(Boolean).map(asciiLower))];
}
