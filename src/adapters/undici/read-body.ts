import type { Readable } from "node:stream";

/** The first bytes of a body. `complete` is false when it was longer: the rest is not read and the connection is closed. */
export async function readBounded(
  body: Readable,
  maxBytes: number,
): Promise<{ readonly bytes: Buffer; readonly complete: boolean }> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    const bytes = chunk as Buffer;
    const fits = bytes.subarray(0, maxBytes - sizeBytes);
    chunks.push(fits);
    sizeBytes += fits.length;
    if (fits.length < bytes.length) {
      body.destroy();
      return { bytes: Buffer.concat(chunks), complete: false };
    }
  }
  return { bytes: Buffer.concat(chunks), complete: true };
}

/** Text of at most `maxBytes` of UTF-8, cut between characters; bytes that are not UTF-8 become U+FFFD, NUL is dropped. */
export function boundedText(bytes: Buffer, maxBytes: number): string {
  let end = Math.min(bytes.length, maxBytes);
  if (end < bytes.length) while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString("utf8", 0, end).replaceAll("\u0000", "");
}
