const DOT_SEGMENT = /(?<=\/)(?:\.|%2e){1,2}(?=\/|$)/gi;

/**
 * A request target whose path segments `.` and `..`, encoded or not, stay where they are: with their dots encoded twice they are
 * ids, and unknown ones. URLs drop such segments (WHATWG URL, 4.4), which makes another operation of the request.
 */
export function keepDotSegments(target: string): string {
  const [path = ""] = target.split(/[?#]/, 1);
  const kept = path.replace(DOT_SEGMENT, (segment) => segment.replace(/\.|%2e/gi, "%252e"));
  return kept + target.slice(path.length);
}
