/**
 * Whether a log that has `pendingBytes` of appends under way takes `sizeBytes` more, with `mostBytes` as its bound. What is larger than
 * half of the bound needs room for half of it: it would else be taken only at an instant when nothing is under way, which never
 * comes under load. So memory is bounded by `mostBytes`, or by half of it and one append that is larger.
 */
export function hasRoomFor(sizeBytes: number, pendingBytes: number, mostBytes: number): boolean {
  return pendingBytes + Math.min(sizeBytes, mostBytes / 2) <= mostBytes;
}
