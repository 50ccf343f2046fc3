/**
 * Parses an absolute URL (https://url.spec.whatwg.org); null for what is none. Not through `URL.canParse`: on Node 20 and 22
 * that takes Latin-1 for UTF-8 once the function that calls it is hot, and then refuses `https://bücher.example/` for ever.
 */
export function parseUrl(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}
