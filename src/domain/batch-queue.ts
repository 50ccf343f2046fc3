/** A batch counts as full once this many jobs that might have shared it did not fit: the rest need not be looked at. */
const MAX_PASSED = 16;

interface Job {
  readonly sizeBytes: number;
  readonly records: readonly unknown[];
}

export interface BatchLimits {
  readonly maxBytes: number;
  readonly maxRecords: number;
}

/**
 * What waits for the next batches of a log. The oldest job is in the next one or the one after it, and what fits beside it comes
 * along, whatever is before it: a webhook does not wait for all the megabytes that somebody else's deferred deliveries write. For
 * calls of `append` that have no order among themselves.
 */
export class BatchQueue<T extends Job> {
  readonly #limits: BatchLimits;
  #jobs: T[] = [];
  /** Whether others went before the oldest job, which is too large to share a batch with them. */
  #hasLetOthersGo = false;

  constructor(limits: BatchLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#jobs.length;
  }

  add(job: T): void {
    this.#jobs.push(job);
  }

  /** Whether the job fills a batch of its own. */
  isLarge(job: Job): boolean {
    return job.sizeBytes > this.#limits.maxBytes;
  }

  /**
   * Takes the jobs of the next batch, in the order in which they came; none if none waits, or only large ones that may not go
   * now. It is as large as `batches` of them; a large one has nothing beside it all the same.
   */
  take({ mayBeLarge = true, batches = 1 } = {}): readonly T[] {
    const [oldest] = this.#jobs;
    if (oldest === undefined) return [];
    if (this.isLarge(oldest) && (!mayBeLarge || !this.#hasLetOthersGo)) {
      const others = this.#takeBeside([], batches);
      this.#hasLetOthersGo ||= others.length > 0;
      if (others.length > 0 || !mayBeLarge) return others;
    }
    this.#hasLetOthersGo = false;
    return this.#takeBeside(this.#jobs.splice(0, 1), this.isLarge(oldest) ? 1 : batches);
  }

  /** Takes away the oldest jobs for which `isOver` holds, up to the first for which it does not. */
  takeWhile(isOver: (job: T) => boolean): readonly T[] {
    const firstLeft = this.#jobs.findIndex((job) => !isOver(job));
    return this.#jobs.splice(0, firstLeft < 0 ? this.#jobs.length : firstLeft);
  }

  #takeBeside(first: readonly T[], batches: number): readonly T[] {
    const maxBytes = this.#limits.maxBytes * batches;
    const maxRecords = this.#limits.maxRecords * batches;
    const taken = [...first];
    const passed: T[] = [];
    let bytes = first[0]?.sizeBytes ?? 0;
    let records = first[0]?.records.length ?? 0;
    let passedSmall = 0;
    let at = 0;
    for (; at < this.#jobs.length && passedSmall < MAX_PASSED; at += 1) {
      const job = this.#jobs[at]!;
      const isLarge = this.isLarge(job);
      const fits =
        !isLarge && bytes + job.sizeBytes <= maxBytes && records + job.records.length <= maxRecords;
      (fits ? taken : passed).push(job);
      if (fits) {
        bytes += job.sizeBytes;
        records += job.records.length;
      } else if (!isLarge) passedSmall += 1;
    }
    this.#jobs = passed.concat(this.#jobs.slice(at));
    return taken;
  }
}
