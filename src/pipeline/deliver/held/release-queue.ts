import type { HeldIndex } from "./held-index.ts";

/**
 * Destinations whose held tasks may be free to go. They are served in rounds, each destination once in a round, so that none
 * waits for others that come back again and again. Within a round those come first that are first in the log: the tasks of
 * many destinations lie side by side there, and one read serves them all.
 */
export class ReleaseQueue {
  readonly #index: HeldIndex;
  /** For the next round. */
  readonly #waiting = new Set<string>();
  /** What is left of this round; the destination that is first in the log is the last here. */
  #round: string[] = [];

  constructor(index: HeldIndex) {
    this.#index = index;
  }

  get isEmpty(): boolean {
    return this.#round.length === 0 && this.#waiting.size === 0;
  }

  add(destinationId: string): void {
    this.#waiting.add(destinationId);
  }

  /** Takes out the next destinations, at most `count`, in the order of the log. */
  take(count: number): string[] {
    if (this.#round.length === 0) this.#beginRound();
    return this.#round.splice(-count).toReversed();
  }

  /** Takes back destinations that were taken out and not served; they come first. */
  putBack(destinationIds: readonly string[]): void {
    this.#round.push(...destinationIds.toReversed());
  }

  clear(): void {
    this.#waiting.clear();
    this.#round = [];
  }

  #beginRound(): void {
    const firsts = [...this.#waiting].flatMap((destinationId) =>
      this.#index.next(destinationId, 1).map((first) => ({ destinationId, first })),
    );
    this.#waiting.clear();
    firsts.sort((one, other) => other.first - one.first);
    this.#round = firsts.map(({ destinationId }) => destinationId);
  }
}
