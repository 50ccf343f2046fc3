/** Returns the `User-Agent` of what a relay sends (RFC 9110, section 10.1.5). */
export function userAgentOf(version: string): string {
  return `webhook-relay/${version}`;
}
