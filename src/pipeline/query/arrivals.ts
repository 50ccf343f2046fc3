import { chunksOf } from "../../domain/chunks.ts";
import { pause, type Clock } from "../../domain/clock.ts";
import type { EventKey, EventStoreReader } from "../../domain/event-store.ts";

const POLL_MS = 50;
/** The ids travel in the URL of the store's query. */
const MAX_IN_A_STATEMENT = 100;

interface Waiting {
  readonly key: EventKey;
  readonly endAtMs: number;
  readonly resolve: (isThere: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Waits for what is on its way into the store: events, or their fan-outs, as `existing` finds them. An organization has one
 * statement running at a time, for up to 100 of the ids that it waits for; all are asked for again 50 ms after the last answer.
 * So however many unknown ids it reads at once, the store is left to the others.
 */
export class Arrivals {
  readonly #existing: EventStoreReader["existing"];
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(existing: EventStoreReader["existing"], clock: Clock) {
    this.#existing = existing;
    this.#clock = clock;
  }

  /** @returns false when it is not there by `endAtMs` of the monotonic clock. @throws {EventStoreError} */
  wait(orgId: string, key: EventKey, endAtMs: number): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const one = { key, endAtMs, resolve, reject };
      const others = this.#waiting.get(orgId);
      if (others !== undefined) others.push(one);
      else {
        this.#waiting.set(orgId, [one]);
        void this.#watch(orgId);
      }
    });
  }

  async #watch(orgId: string): Promise<void> {
    for (;;) {
      await pause(this.#clock, POLL_MS);
      const asked = this.#waiting.get(orgId) ?? [];
      this.#waiting.set(orgId, []);
      const missing = await this.#ask(orgId, asked);
      const waiting = [...missing, ...(this.#waiting.get(orgId) ?? [])];
      if (waiting.length === 0) break;
      this.#waiting.set(orgId, waiting);
    }
    this.#waiting.delete(orgId);
  }

  /** Settles those that have arrived or timed out. @returns those still waited for */
  async #ask(orgId: string, asked: readonly Waiting[]): Promise<readonly Waiting[]> {
    try {
      const stored = await this.#stored(orgId, asked);
      const nowMs = this.#clock.monotonic();
      const isDone = ({ key, endAtMs }: Waiting) => stored.has(key.id) || nowMs >= endAtMs;
      for (const one of asked) if (isDone(one)) one.resolve(stored.has(one.key.id));
      return asked.filter((one) => !isDone(one));
    } catch (error) {
      for (const one of asked) one.reject(error);
      return [];
    }
  }

  async #stored(orgId: string, asked: readonly Waiting[]): Promise<ReadonlySet<string>> {
    const keys = [...new Map(asked.map(({ key }) => [key.id, key])).values()];
    const stored = new Set<string>();
    for (const some of chunksOf(keys, MAX_IN_A_STATEMENT))
      for (const id of await this.#existing(orgId, some)) stored.add(id);
    return stored;
  }
}
