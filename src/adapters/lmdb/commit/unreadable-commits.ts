import type { Topic } from "../../../domain/log.ts";
import { bufferOf, ROW_BYTES, ROW_KEY_BYTES, STREAM_KEY_BYTES, topicOfId } from "../layout.ts";
import type { Environment } from "../environment.ts";
import type { WrittenCommit } from "../segments/read-segment.ts";
import { damaged } from "../segments/segment-files.ts";
import { endInIndex } from "./index-entries.ts";

/** Commits that were durable, and that the disk has lost or changed before they were in the index. */
export interface UnreadableCommits {
  readonly commits: number;
  /** The records that they held, as far as others of the same stream follow them. */
  readonly lost: readonly LostRecords[];
}

/** Offsets of one stream, from the first to the one after the last. */
export interface LostRecords {
  readonly topic: Topic;
  readonly partition: number;
  readonly from: number;
  readonly to: number;
}

/** Far more than ever wait for the index: with more missing, index and segments do not belong together. */
const MAX_MISSING = 5_000;

/**
 * Returns what is missing among the commits that follow the one numbered `applied`, the last in the index; null if nothing is.
 * @throws {Error} when the index is of another time than the segments
 */
export function findUnreadable(
  commits: readonly WrittenCommit[],
  applied: number,
  { environment, segmentsDir }: { environment: Environment; segmentsDir: string },
): UnreadableCommits | null {
  const missing = (commits.at(-1)?.number ?? applied) - applied - commits.length;
  if (missing > MAX_MISSING)
    throw damaged(segmentsDir, `lacks ${missing} commits that follow what the index holds`);
  return missing === 0 ? null : { commits: missing, lost: gapsBetween(commits, environment) };
}

function gapsBetween(commits: readonly WrittenCommit[], environment: Environment): LostRecords[] {
  const ends = new Map<number, number>();
  const gaps: LostRecords[] = [];
  for (const { rows } of commits) {
    const bytes = bufferOf(rows);
    for (let at = 0; at < bytes.length; at += ROW_BYTES) {
      const stream = bytes.readUIntBE(at, STREAM_KEY_BYTES);
      const from =
        ends.get(stream) ?? endInIndex(environment, bytes.subarray(at, at + STREAM_KEY_BYTES));
      const to = bytes.readUIntBE(at + STREAM_KEY_BYTES, 6);
      const [topic, partition] = [topicOfId(bytes.readUInt8(at)), bytes.readUInt16BE(at + 1)];
      if (to > from) gaps.push({ topic, partition, from, to });
      ends.set(stream, bytes.readUIntBE(at + ROW_KEY_BYTES, 6));
    }
  }
  return gaps;
}
