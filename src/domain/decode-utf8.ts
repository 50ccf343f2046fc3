/**
 * Decodes UTF-8 strictly, and keeps a byte order mark, which is part of the bytes. Returns null for what is not UTF-8: replacement
 * characters would make different bytes look equal.
 */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
