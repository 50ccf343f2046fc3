/** Those that wait for the same thing, which then holds for all of them. */
export class WaitList {
  #resolvers: (() => void)[] = [];

  /** Resolves with the next `wakeAll`. */
  wait(): Promise<void> {
    return new Promise((resolve) => this.#resolvers.push(resolve));
  }

  /** Lets everything that waits go on; what waits again is woken by the next call. */
  wakeAll(): void {
    if (this.#resolvers.length === 0) return;
    const resolvers = this.#resolvers;
    this.#resolvers = [];
    for (const resolve of resolvers) resolve();
  }
}
