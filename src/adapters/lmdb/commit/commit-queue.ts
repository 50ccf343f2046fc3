import { MAX_SEGMENT_COMMIT_BYTES } from "../segments/segments.ts";

/** A commit of this size still fits a segment, with its rows and heads; one that does not goes to LMDB, whose file never shrinks. */
const MOST_GATHERED_BYTES = MAX_SEGMENT_COMMIT_BYTES - 256 * 1024;

interface Job {
  readonly sizeBytes: number;
}

/**
 * What waits for the next commits. The oldest job is in the next one or the one after it, and what fits beside it comes along,
 * whatever is before it: a webhook does not wait for all the megabytes that somebody else's deferred deliveries write. Calls of
 * `append` have no order among themselves.
 */
export class CommitQueue<T extends Job> {
  #jobs: T[] = [];
  /** Whether others went before the oldest job, which is too large to share a commit with them. */
  #hasLetOthersGo = false;

  get size(): number {
    return this.#jobs.length;
  }

  add(job: T): void {
    this.#jobs.push(job);
  }

  /** Takes the jobs of the next commit, in the order in which they came; none if none waits. */
  take(): readonly T[] {
    const [oldest] = this.#jobs;
    if (oldest !== undefined && !isGathered(oldest) && !this.#hasLetOthersGo) {
      const others = this.#takeGathered(0);
      this.#hasLetOthersGo = others.length > 0;
      if (this.#hasLetOthersGo) return others;
    }
    this.#hasLetOthersGo = false;
    const first = this.#jobs.splice(0, 1);
    return [...first, ...this.#takeGathered(first[0]?.sizeBytes ?? 0)];
  }

  #takeGathered(takenBytes: number): readonly T[] {
    let bytes = takenBytes;
    const taken: T[] = [];
    const left: T[] = [];
    for (const job of this.#jobs) {
      const fits = bytes + job.sizeBytes <= MOST_GATHERED_BYTES;
      if (fits) bytes += job.sizeBytes;
      (fits ? taken : left).push(job);
    }
    this.#jobs = left;
    return taken;
  }
}

function isGathered(job: Job): boolean {
  return job.sizeBytes <= MOST_GATHERED_BYTES;
}
