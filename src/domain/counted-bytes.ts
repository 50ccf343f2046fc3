/**
 * What an append counts for while it is under way, in a log that takes `mostBytes` of them. Any that is larger than half of that
 * counts for little more than half: in full it would be taken only at an instant with nothing under way, which never comes under
 * load, and then keep out all others. No two of them fit, so memory is bounded by half of `mostBytes` and the largest append.
 */
export function countedBytes(sizeBytes: number, mostBytes: number): number {
  return Math.min(sizeBytes, Math.floor(mostBytes / 2) + 1);
}
