/**
 * Returns what an append under way counts for in a log that takes `maxBytes` of appends. One larger than half of that counts
 * for just over half: counted in full, it would have to wait for a moment with nothing under way, which never comes under load,
 * and would then keep out all others. No two of them fit, so memory is bounded by half of `maxBytes` and the largest append.
 */
export function countedBytes(sizeBytes: number, maxBytes: number): number {
  return Math.min(sizeBytes, Math.floor(maxBytes / 2) + 1);
}
