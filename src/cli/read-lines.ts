const LINE_FEED = 0x0a;

/**
 * Cuts a stream into lines, without their line feeds. Yields null for a line of more than `maxBytes`, of which nothing is kept:
 * `node:readline` would end the program there, since no text can be that long.
 */
export async function* readLines(
  input: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Buffer | null> {
  let parts: Uint8Array[] = [];
  let sizeBytes = 0;

  function take(part: Uint8Array): void {
    sizeBytes += part.length;
    if (sizeBytes > maxBytes) parts = [];
    else parts.push(part);
  }

  function end(): Buffer | null {
    const line = sizeBytes > maxBytes ? null : Buffer.concat(parts);
    parts = [];
    sizeBytes = 0;
    return line;
  }

  for await (const chunk of input) {
    let from = 0;
    for (;;) {
      const at = chunk.indexOf(LINE_FEED, from);
      if (at < 0) break;
      take(chunk.subarray(from, at));
      yield end();
      from = at + 1;
    }
    take(chunk.subarray(from));
  }
  if (sizeBytes > 0) yield end();
}
