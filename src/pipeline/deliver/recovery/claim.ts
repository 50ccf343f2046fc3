/** How many partitions the log had for the first owner to take in the records from these offsets on. */
export interface CountFrom {
  readonly partitions: number;
  readonly events: number;
  readonly tasks: number;
}

/**
 * The owner of a partition, named in the metadata of a commit that it makes before its first try. The next owner looks for that
 * owner's `released` marker in the log; without one it waits until tries that may be in flight must have ended. While it waits,
 * its own claim says until when: it has sent nothing yet, so an owner that takes over meanwhile waits until that same moment, and
 * not for the whole time again.
 */
export interface Claim {
  readonly ownerId: string;
  /** Wall clock, ms; null if it may have sent. */
  readonly waitsUntilMs: number | null;
  /** The counts that earlier owners went by, and its own last; empty if an older version wrote the claim. */
  readonly counts: readonly CountFrom[];
  /** Until when limits kept elsewhere may come, wall clock, ms; null if all have come. */
  readonly incompleteUntilMs: number | null;
}

/** Older versions read only what precedes the first of these words, and a number right after it. */
const CLAIM =
  /^(?<ownerId>.*?)(?: waits until (?:(?<waits>\d+)|-)(?: of (?<counts>\d+(?::\d+:\d+)?(?:,\d+:\d+:\d+)*))?(?: incomplete until (?<incomplete>\d+))?)?$/;

export function encodeClaim(claim: Claim): string {
  const { ownerId, waitsUntilMs, counts, incompleteUntilMs } = claim;
  const parts = [ownerId, "waits until", waitsUntilMs === null ? "-" : Math.ceil(waitsUntilMs)];
  if (counts.length > 0) parts.push("of", counts.map(encodeCount).join(","));
  if (incompleteUntilMs !== null) parts.push("incomplete until", Math.ceil(incompleteUntilMs));
  return parts.join(" ");
}

export function decodeClaim(metadata: string): Claim {
  const { ownerId, waits, counts, incomplete } = CLAIM.exec(metadata)?.groups ?? {};
  return {
    ownerId: ownerId ?? metadata,
    waitsUntilMs: numberOrNull(waits),
    counts: counts === undefined ? [] : counts.split(",").map(decodeCount),
    incompleteUntilMs: numberOrNull(incomplete),
  };
}

/** Encodes the number alone if the offsets are 0. */
function encodeCount({ partitions, events, tasks }: CountFrom): string {
  return events === 0 && tasks === 0 ? `${partitions}` : `${partitions}:${events}:${tasks}`;
}

function decodeCount(text: string): CountFrom {
  const [partitions = 0, events = 0, tasks = 0] = text.split(":").map(Number);
  return { partitions, events, tasks };
}

function numberOrNull(text: string | undefined): number | null {
  return text === undefined ? null : Number(text);
}
