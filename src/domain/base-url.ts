import { parseUrl } from "./parse-url.ts";

export const BASE_URL_FORM = "http(s)://host[:port][/path], without user, query or fragment";

/** Returns whether a path can be appended to a URL: it has no user information, query or fragment. */
export function isBaseUrl(text: string): boolean {
  return /^https?:\/\/[^\s/?#@\\]+(?:\/[^\s?#\\]*)?$/i.test(text) && parseUrl(text) !== null;
}
