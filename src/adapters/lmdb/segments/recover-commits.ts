import { firstNumber, readCommits } from "./read-segment.ts";
import type { WrittenCommit } from "./read-segment.ts";
import { rewriteSegment } from "./segment-files.ts";

/** The commit that was written last. */
export type CommitEnd = Pick<WrittenCommit, "segment" | "endBytes" | "number">;

/**
 * Returns the commits after `number`, in order, and makes them durable: one that was whole when its process was killed need not be on
 * the disk yet. Also returns where the latest commit of all ends, whether it is one of these or earlier.
 *
 * A number is left out where a commit cannot be read that others follow: a crash cuts only the last one short, so the disk has lost it
 * or changed it. Those behind it come without their groups: a group may have come further than what is left of its stream, and would
 * pass over the next records there.
 */
export function recoverCommits(
  dir: string,
  segments: readonly number[],
  number: number,
  seed: number,
): { commits: WrittenCommit[]; end: CommitEnd | null } {
  const found = new Map<number, WrittenCommit>();
  let end: CommitEnd | null = null;
  for (const segment of segmentsAfter(dir, segments, number, seed))
    for (const commit of readCommits(dir, segment, seed)) {
      // The later segment is right: in the earlier one the commit failed and was refused, and its number was given again.
      if (commit.number > number) found.set(commit.number, commit);
      if (end === null || commit.number >= end.number) end = commit;
    }
  const inOrder = [...found.values()].toSorted((a, b) => a.number - b.number);
  const commits = inOrder.map((commit, index) => {
    const isBehindGap = commit.number > number + 1 + index;
    return isBehindGap ? withoutGroups(commit) : commit;
  });
  const ends = new Map(commits.map(({ segment, endBytes }) => [segment, endBytes]));
  for (const [segment, endBytes] of ends) rewriteSegment(dir, segment, endBytes);
  return { commits, end };
}

function withoutGroups({ number, places, rows, segment, endBytes }: WrittenCommit): WrittenCommit {
  return { number, places, rows, groups: [], segment, endBytes };
}

/**
 * Returns segments in the order in which they were written: the last that begins with `number` or before it, and all that begin
 * later. Before them come those that begin with no whole commit: new, damaged there, or cut short by a crash.
 */
function segmentsAfter(
  dir: string,
  ids: readonly number[],
  number: number,
  seed: number,
): number[] {
  const segments = ids.map((id) => ({ id, first: firstNumber(dir, id, seed) }));
  const headless = segments.filter(({ first }) => first === null);
  const byFirst = segments
    .filter(({ first }) => first !== null)
    .toSorted((a, b) => a.first! - b.first!);
  const from = byFirst.findLastIndex(({ first }) => first! <= number);
  return [...headless, ...byFirst.slice(Math.max(0, from))].map(({ id }) => id);
}
