import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { Place } from "../layout.ts";
import { segmentPath } from "./segment-files.ts";
import {
  COMMIT_HEAD_BYTES,
  decodeCommit,
  EARLIER_SEED,
  findHead,
  sizeAtStart,
} from "./segment-commit.ts";
import type { SegmentCommit } from "./segment-commit.ts";

/** A commit as it was written: where its blobs are, and what goes into the index. */
export interface WrittenCommit {
  readonly number: number;
  readonly places: readonly (readonly [seq: number, place: Place])[];
  readonly rows: Uint8Array;
  readonly groups: SegmentCommit["groups"];
  readonly segment: number;
  /** Where the next commit of the segment begins. */
  readonly endBytes: number;
}

/**
 * Returns the whole commits of the segment, in order, even those after one that cannot be read: that they are there shows that it
 * was not the last one, which a crash may cut short.
 */
export function readCommits(dir: string, segment: number, seed: number): WrittenCommit[] {
  const bytes = readFile(segmentPath(dir, segment), Infinity);
  const commits: WrittenCommit[] = [];
  let last = 0;
  for (let at = 0; at !== -1;) {
    const decoded = decodeCommit(bytes.subarray(at), seed);
    // Lower numbers are left from an earlier use.
    if (decoded === null || decoded.number <= last) {
      // Without a secret, what looks like a commit may be somebody's payload.
      at = seed === EARLIER_SEED ? -1 : findHead(bytes, at + 1);
      continue;
    }
    const { number, commit, sizeBytes, blobsAt } = decoded;
    const { rows, groups } = commit;
    const places = placesOf(commit, segment, at + blobsAt);
    at += sizeBytes;
    commits.push({ number, places, rows, groups, segment, endBytes: at });
    last = number;
  }
  return commits;
}

/**
 * Returns the number of the commit that the segment begins with; null if that commit is not whole. One that a crash cut short says
 * nothing: its number was given again, and the segment that it was to follow is written on.
 */
export function firstNumber(dir: string, segment: number, seed: number): number | null {
  const path = segmentPath(dir, segment);
  const sizeBytes = sizeAtStart(readFile(path, COMMIT_HEAD_BYTES));
  if (sizeBytes === null) return null;
  return decodeCommit(readFile(path, sizeBytes), seed)?.number ?? null;
}

export function placesOf({ blobs }: SegmentCommit, segment: number, blobsAt: number) {
  let positionBytes = blobsAt;
  return blobs.map(({ seq, bytes }) => {
    const place: Place = { segment, positionBytes, lengthBytes: bytes.byteLength };
    positionBytes += bytes.byteLength;
    return [seq, place] as const;
  });
}

function readFile(path: string, maxBytes: number): Buffer {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.allocUnsafeSlow(Math.min(fstatSync(file).size, maxBytes));
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(file);
  }
}
