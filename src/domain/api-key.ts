const SHORTEST_API_KEY = 16;
export const LONGEST_API_KEY = 512;
export const API_KEY_FORM = `${SHORTEST_API_KEY} to ${LONGEST_API_KEY} visible ASCII characters, such as rk_ and 8 characters, _ and 32 random ones`;

/** What can be a key at all: visible ASCII, as a header value may carry it. */
export function looksLikeApiKey(text: string): boolean {
  return (
    text.length >= SHORTEST_API_KEY && text.length <= LONGEST_API_KEY && /^[\x21-\x7e]+$/.test(text)
  );
}
