import { tooMany } from "./api-failure.ts";

/** Room for more of the largest bodies than any honest client sends at once. */
const MAX_BYTES = 32 * 1024 * 1024;

/** What one request keeps of its body; disposing it gives that back. */
export interface BodyShare extends Disposable {
  /** @throws {ApiFailure} `rate_limited` when the organization's bodies fill their room */
  add(sizeBytes: number): void;
}

/** Begins a body of a request of this organization. */
export type BodyRoom = (orgId: string) => BodyShare;

/**
 * Bounds the memory that each organization's bodies take until they are parsed: one that sends a part of a body on each of thousands of
 * connections would otherwise fill the process.
 */
export function makeBodyRoom(maxBytes = MAX_BYTES): BodyRoom {
  const keptOf = new Map<string, number>();

  function change(orgId: string, sizeBytes: number): void {
    const kept = (keptOf.get(orgId) ?? 0) + sizeBytes;
    if (kept === 0) keptOf.delete(orgId);
    else keptOf.set(orgId, kept);
  }

  return (orgId) => {
    let ownBytes = 0;
    return {
      add(sizeBytes) {
        if ((keptOf.get(orgId) ?? 0) + sizeBytes > maxBytes)
          throw tooMany(
            "Too many large bodies of this organization are on their way: send a few at a time.",
          );
        ownBytes += sizeBytes;
        change(orgId, sizeBytes);
      },
      [Symbol.dispose]() {
        change(orgId, -ownBytes);
        ownBytes = 0;
      },
    };
  };
}
