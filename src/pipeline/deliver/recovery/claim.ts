/**
 * Names the owner of a partition, as metadata of a commit that it makes before its first try. The next owner looks for that
 * owner's `released` marker in the log; without one it waits until tries that may be in flight must have ended.
 * An owner that is still waiting so commits until when. It has sent nothing yet, so an owner that follows it meanwhile waits
 * for that same moment, and not for the whole time again.
 */
export interface Claim {
  readonly ownerId: string;
  /** How many the log had then; null: not said, by an older version. */
  readonly partitions: number | null;
  /** Wall clock, ms: until then limits may come that were kept elsewhere; null: all have come. */
  readonly incompleteUntilMs: number | null;
  /** Wall clock, ms; null: it may have sent. */
  readonly waitsUntilMs: number | null;
}

const CLAIM =
  /^(?<ownerId>.*?)(?: of (?<partitions>\d+))?(?: incomplete until (?<incomplete>\d+))?(?: waits until (?<waits>\d+))?$/;

export function encodeClaim(claim: Claim): string {
  const { ownerId, partitions, incompleteUntilMs, waitsUntilMs } = claim;
  const parts = [ownerId];
  if (partitions !== null) parts.push(`of ${partitions}`);
  if (incompleteUntilMs !== null) parts.push(`incomplete until ${Math.ceil(incompleteUntilMs)}`);
  if (waitsUntilMs !== null) parts.push(`waits until ${Math.ceil(waitsUntilMs)}`);
  return parts.join(" ");
}

export function decodeClaim(metadata: string): Claim {
  const { ownerId = "", partitions, incomplete, waits } = CLAIM.exec(metadata)?.groups ?? {};
  return {
    ownerId,
    partitions: numberOrNull(partitions),
    incompleteUntilMs: numberOrNull(incomplete),
    waitsUntilMs: numberOrNull(waits),
  };
}

function numberOrNull(text: string | undefined): number | null {
  return text === undefined ? null : Number(text);
}
