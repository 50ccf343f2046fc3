/** Shared memory that bodies are copied to on their way to a thread. */
export interface BodySlabs {
  /** Returns a slab of at least `sizeBytes`, possibly with an earlier batch's bytes in it. */
  take(sizeBytes: number): SharedArrayBuffer;
  /** Takes a slab back for reuse; never one that a lost worker may still read. */
  giveBack(slab: SharedArrayBuffer): void;
}

const MIN_SLAB_BYTES = 1024 * 1024;
const MAX_KEPT_SLAB_BYTES = 16 * 1024 * 1024;

/**
 * Keeps a few slabs warm. Fresh memory has to be zeroed and mapped page by page, which at 1 MB costs the loop about as
 * much as hashing the body there would (bench/verify.ts).
 */
export function makeBodySlabs(maxKept: number): BodySlabs {
  const free: SharedArrayBuffer[] = [];
  return {
    take(sizeBytes) {
      const index = free.findIndex((slab) => slab.byteLength >= sizeBytes);
      const [slab] = index < 0 ? [] : free.splice(index, 1);
      return slab ?? new SharedArrayBuffer(roundUp(sizeBytes));
    },
    giveBack(slab) {
      if (slab.byteLength > MAX_KEPT_SLAB_BYTES) return;
      free.push(slab);
      free.sort((a, b) => a.byteLength - b.byteLength);
      // The smallest goes: a larger one can take its place.
      if (free.length > maxKept) free.shift();
    },
  };
}

function roundUp(sizeBytes: number): number {
  let size = MIN_SLAB_BYTES;
  while (size < sizeBytes) size *= 2;
  return size;
}
