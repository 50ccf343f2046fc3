/**
 * Names the owner of a partition, as metadata of a commit that it makes before its first try. The next owner looks for that
 * owner's `released` marker in the log; without one it waits until tries that may be in flight must have ended.
 * An owner that is still waiting so commits until when. It has sent nothing yet, so an owner that follows it meanwhile waits
 * for that same moment, and not for the whole time again.
 */
export interface Claim {
  readonly ownerId: string;
  /** Wall clock, ms; null: it may have sent. */
  readonly waitsUntilMs: number | null;
  /** How many partitions the log had by its assignment, and before it by those of earlier owners; none: not said, by an older version. */
  readonly counts: readonly number[];
  /** Wall clock, ms: until then limits may come that were kept elsewhere; null: all have come. */
  readonly incompleteUntilMs: number | null;
}

/** An older version reads what stands before the first of these words, and a number right behind it. */
const CLAIM =
  /^(?<ownerId>.*?)(?: waits until (?:(?<waits>\d+)|-)(?: of (?<counts>\d+(?:,\d+)*))?(?: incomplete until (?<incomplete>\d+))?)?$/;

export function encodeClaim(claim: Claim): string {
  const { ownerId, waitsUntilMs, counts, incompleteUntilMs } = claim;
  const parts = [ownerId, "waits until", waitsUntilMs === null ? "-" : Math.ceil(waitsUntilMs)];
  if (counts.length > 0) parts.push("of", counts.join(","));
  if (incompleteUntilMs !== null) parts.push("incomplete until", Math.ceil(incompleteUntilMs));
  return parts.join(" ");
}

export function decodeClaim(metadata: string): Claim {
  const { ownerId, waits, counts, incomplete } = CLAIM.exec(metadata)?.groups ?? {};
  return {
    ownerId: ownerId ?? metadata,
    waitsUntilMs: numberOrNull(waits),
    counts: counts === undefined ? [] : counts.split(",").map(Number),
    incompleteUntilMs: numberOrNull(incomplete),
  };
}

function numberOrNull(text: string | undefined): number | null {
  return text === undefined ? null : Number(text);
}
