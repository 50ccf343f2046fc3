import { ROW_BYTES } from "../layout.ts";
import type { Place } from "../layout.ts";
import type { WrittenCommit } from "../segments/read-segment.ts";
import { RETRY_COMMITS } from "../segments/segments.ts";

/** When this much is missing from the index, it is put there: one large transaction instead of many small ones. */
const DUE_ROWS = 4_096;
const DUE_COMMITS = 1_000;
const DUE_BYTES = 16 * 1024 * 1024;
/** Or so many commits, if the last time is a while ago: the next commit waits for a transaction, and a small one takes a third as long. */
const DUE_COMMITS_AFTER_A_WHILE = 256;
const A_WHILE_MS = 500;

/** Commits that are durable in segments and not in LMDB yet, in the order of their numbers. */
export class UnappliedCommits {
  #commits: WrittenCommit[];
  #rows = 0;
  #blobBytes = 0;
  #applied: number;
  #appliedAtMs = 0;
  #retryAt = 0;

  /** `applied`: the number of the latest commit that is in LMDB; `commits`: those that were found after it. */
  constructor(applied: number, commits: readonly WrittenCommit[]) {
    this.#applied = applied;
    this.#commits = [...commits];
  }

  get commits(): readonly WrittenCommit[] {
    return this.#commits;
  }

  /** Number of the latest commit that is in LMDB. */
  get applied(): number {
    return this.#applied;
  }

  /** Number of the latest commit of all. */
  get latest(): number {
    return this.#commits.at(-1)?.number ?? this.#applied;
  }

  add(written: WrittenCommit): void {
    this.#commits.push(written);
    this.#rows += written.rows.length / ROW_BYTES;
    for (const [, { lengthBytes }] of written.places) this.#blobBytes += lengthBytes;
  }

  /** Returns where the blobs of these commits are, by their numbers. */
  places(): Map<number, Place> {
    return new Map(this.#commits.flatMap(({ places }) => places));
  }

  /** Returns whether there is enough to be put into LMDB, and LMDB is not left alone after a failure. */
  isDue(): boolean {
    const isWhileAgo = performance.now() - this.#appliedAtMs >= A_WHILE_MS;
    const dueCommits = isWhileAgo ? DUE_COMMITS_AFTER_A_WHILE : DUE_COMMITS;
    const isEnough =
      this.#commits.length >= dueCommits || this.#rows >= DUE_ROWS || this.#blobBytes >= DUE_BYTES;
    return isEnough && this.latest >= this.#retryAt;
  }

  /** LMDB did not take them: they are due again some commits later. */
  retryLater(): void {
    this.#retryAt = this.latest + RETRY_COMMITS;
  }

  /** LMDB has all commits up to the one with this number. */
  noteApplied(latest: number): void {
    this.#applied = latest;
    this.#commits = [];
    this.#rows = 0;
    this.#blobBytes = 0;
    this.#retryAt = 0;
    this.#appliedAtMs = performance.now();
  }
}
