import { asciiLower } from "../../domain/searchable-leaf.ts";

/** Returns the white-space separated terms of `q`, in ASCII lower case, each once; none when `q` is only white space. */
export function searchTerms(q: string): readonly string[] {
  return [...new Set(q.split(/\s+/u).filter(Boolean).map(asciiLower))];
}
