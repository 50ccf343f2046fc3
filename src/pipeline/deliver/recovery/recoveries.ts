/**
 * The recoveries of a process's partitions that are under way. What one partition kept may belong to another by now, and is
 * written there once it has recovered; a process that starts alone is assigned all its partitions at once.
 */
export class Recoveries {
  readonly #underWay = new Set<Promise<void>>();

  get areUnderWay(): boolean {
    return this.#underWay.size > 0;
  }

  async track(recovery: Promise<void>): Promise<void> {
    this.#underWay.add(recovery);
    try {
      await recovery;
    } finally {
      this.#underWay.delete(recovery);
    }
  }

  /** Resolves when none is under way, however they ended. */
  async ended(): Promise<void> {
    while (this.areUnderWay) await Promise.allSettled(this.#underWay);
  }
}
