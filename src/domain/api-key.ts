const SHORTEST_API_KEY = 16;
export const MAX_API_KEY_LENGTH = 512;
export const API_KEY_FORM = `${SHORTEST_API_KEY} to ${MAX_API_KEY_LENGTH} visible ASCII characters, such as rk_ and 8 characters, _ and 32 random ones`;

/** What a key may be used for. */
export type Scope = "read" | "write";

/** `rk_` + 8 public characters + `_` + the secret: the form of the keys that the relay makes itself. */
const OWN_FORM = /^(rk_[A-Za-z0-9]{8})_/;

/** Returns whether a text can be a key at all: visible ASCII, which a header value may carry. */
export function looksLikeApiKey(text: string): boolean {
  return (
    text.length >= SHORTEST_API_KEY &&
    text.length <= MAX_API_KEY_LENGTH &&
    /^[\x21-\x7e]+$/.test(text)
  );
}

/** Returns the part of a key that may be shown; null for a key of any other form, since all of it may be secret. */
export function publicPartOfKey(key: string): string | null {
  return OWN_FORM.exec(key)?.[1] ?? null;
}
