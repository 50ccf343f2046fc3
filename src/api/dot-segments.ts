const DOT_SEGMENT = /(?<=\/)(?:\.|%2e){1,2}(?=\/|$)/gi;

/**
 * Keeps the path segments `.` and `..`, encoded or not, in a request target by encoding their dots twice, which makes
 * them unknown ids. URL parsing would drop them (WHATWG URL, 4.4) and so make the request a different operation.
 */
export function keepDotSegments(target: string): string {
  const [path = ""] = target.split(/[?#]/, 1);
  const kept = path.replace(DOT_SEGMENT, (segment) => segment.replace(/\.|%2e/gi, "%252e"));
  return kept + target.slice(path.length);
}
