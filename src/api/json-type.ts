const TYPE = /application\/json[\t ]*/iy;
/** One parameter, or none where a semicolon has nothing behind it. Blanks around the `=` are wrong, but sent. */
const PARAMETER =
  /;[\t ]*(?:(?<name>[!#$%&'*+.^`|~\w-]+)[\t ]*=[\t ]*(?:(?<token>[!#$%&'*+.^`|~\w-]+)|"(?<quoted>(?:[^"\\]|\\.)*)")[\t ]*)?/sy;

/**
 * Returns whether a media type is JSON in UTF-8 (RFC 9110, section 8.3.1): parameters that are not known say nothing to the contrary
 * (`application/json; version=1`), an encoding other than UTF-8 does.
 */
export function isJsonInUtf8(contentType: string): boolean {
  const text = contentType.trim();
  let position = endOf(TYPE, text, 0);
  while (position !== null && position < text.length) {
    PARAMETER.lastIndex = position;
    const { name, token, quoted } = PARAMETER.exec(text)?.groups ?? {};
    const isUtf8 = /^utf-?8$/i.test(token ?? quoted ?? "");
    if (name?.toLowerCase() === "charset" && !isUtf8) return false;
    position = endOf(PARAMETER, text, position);
  }
  return position !== null;
}

/** Returns where a match that begins at `from` ends, or null. */
function endOf(sticky: RegExp, text: string, from: number): number | null {
  sticky.lastIndex = from;
  return sticky.test(text) ? sticky.lastIndex : null;
}
