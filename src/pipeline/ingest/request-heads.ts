import type { HeaderList } from "../../domain/event.ts";
import type { RequestHead } from "../../domain/incoming-request.ts";

/** What each request may bring besides its body, as one of the most that are in flight. */
const FREE_BYTES = 4 * 1_024;
/** What V8 needs for a header besides its characters: two strings and the pair of them. */
const HEADER_BYTES = 128;

/** Returns the memory that a head takes beyond what every request may have: nothing for all that providers send. */
export function excessHeadBytes({ path, query, headers }: RequestHead): number {
  let bytes = path.length + (query?.length ?? 0);
  for (const [name, value] of headers) bytes += name.length + value.length + HEADER_BYTES;
  return Math.max(0, bytes - FREE_BYTES);
}

/** Returns the first one, null when there is none. */
export function contentTypeOf(headers: HeaderList): string | null {
  for (const [name, value] of headers)
    if (name === "content-type" || name.toLowerCase() === "content-type") return value;
  return null;
}
