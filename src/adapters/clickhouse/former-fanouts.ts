/**
 * Other processes of an older version may write into the former table while all are restarted, one after the other: what was
 * found out holds for so long, and for events that came so much later.
 */
const HOLDS_MS = 60_000;
const MARGIN_MS = 10 * 60_000;

export interface FormerFanoutsPorts {
  /** Time of the newest event that has a fan-out in the former table, in ms since the epoch; 0 where none has. */
  readonly newest: () => Promise<number>;
  readonly monotonic: () => number;
}

/** Knows of which events fan-outs may stand in the table that they had for themselves (`FORMER_FANOUTS` in schema.ts). */
export class FormerFanouts {
  readonly #ports: FormerFanoutsPorts;
  #newest: Promise<number> | null = null;
  #untilMs = -Infinity;

  constructor(ports: FormerFanoutsPorts) {
    this.#ports = ports;
  }

  /** @throws {EventStoreError} when it cannot be found out */
  async mayHave(receivedAtMs: number): Promise<boolean> {
    const { monotonic, newest } = this.#ports;
    if (this.#newest === null || monotonic() >= this.#untilMs) {
      this.#untilMs = monotonic() + HOLDS_MS;
      const asked = newest();
      this.#newest = asked;
      asked.catch(() => {
        if (this.#newest === asked) this.#newest = null;
      });
    }
    const newestMs = await this.#newest;
    return newestMs > 0 && receivedAtMs <= newestMs + MARGIN_MS;
  }
}
