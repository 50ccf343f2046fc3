const FREE_FACTOR = 2;

/** The reads of one organization: how many are running, and those that wait, oldest first. */
interface Share {
  running: number;
  readonly waiting: Set<() => void>;
}

/**
 * Shares the reads that the store answers at once among organizations, without knowing how many there are: each may
 * have twice as many running as places are still free (the dynamic threshold of Choudhury and Hahne, 1998). One alone gets two
 * thirds, and a newcomer finds room however slow the others' questions are; further reads wait for their turn.
 */
export class ReadShares {
  readonly #maxAtOnce: number;
  readonly #shares = new Map<string, Share>();
  #running = 0;

  constructor(maxAtOnce: number) {
    this.#maxAtOnce = maxAtOnce;
  }

  /** Runs `read` when its turn comes. @throws the signal's reason if that comes first */
  async run<T>(orgId: string, signal: AbortSignal, read: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const share = this.#shareOf(orgId);
    if (share.waiting.size === 0 && this.#hasRoom(share)) this.#begin(share);
    else await this.#turnOf(share, signal).finally(() => this.#forgetIdle(orgId, share));
    try {
      return await Promise.race([read(), rejectedBy(signal)]);
    } finally {
      share.running -= 1;
      this.#running -= 1;
      this.#forgetIdle(orgId, share);
      this.#beginWaiting();
    }
  }

  #forgetIdle(orgId: string, share: Share): void {
    if (share.running === 0 && share.waiting.size === 0) this.#shares.delete(orgId);
  }

  #shareOf(orgId: string): Share {
    let share = this.#shares.get(orgId);
    if (share === undefined)
      this.#shares.set(orgId, (share = { running: 0, waiting: new Set<() => void>() }));
    return share;
  }

  #hasRoom(share: Share): boolean {
    return share.running < FREE_FACTOR * (this.#maxAtOnce - this.#running);
  }

  #begin(share: Share): void {
    share.running += 1;
    this.#running += 1;
  }

  #turnOf(share: Share, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal.removeEventListener("abort", giveUp);
        share.waiting.delete(begin);
        this.#begin(share);
        resolve();
      };
      const giveUp = (): void => {
        share.waiting.delete(begin);
        reject(signal.reason as Error);
      };
      share.waiting.add(begin);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** Begins with organizations that have the fewest reads running; equals take turns. */
  #beginWaiting(): void {
    for (;;) {
      let next: readonly [orgId: string, share: Share] | null = null;
      for (const entry of this.#shares)
        if (entry[1].waiting.size > 0 && entry[1].running < (next?.[1].running ?? Infinity))
          next = entry;
      if (next === null || !this.#hasRoom(next[1])) return;
      const [orgId, share] = next;
      this.#shares.delete(orgId);
      this.#shares.set(orgId, share);
      const [begin] = share.waiting;
      begin?.();
    }
  }
}

/** Rejects when a read is given up, so that one which goes on regardless does not keep its place. */
function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}
