/** What was found out holds for so long. */
const HOLDS_MS = 60_000;
/** Events came so long before their fan-outs at most, which may be on their way into the table. */
const MARGIN_MS = 10 * 60_000;
/** Processes of an older version may write there until all are restarted. */
const UPGRADE_MS = 24 * 3_600_000;

export interface FormerFanoutsState {
  /** Time of the newest event that has a fan-out in the former table; 0 where none has. */
  readonly newestMs: number;
  /** When an older schema was migrated to the one without that table; 0 where the database began with it. */
  readonly upgradedMs: number;
}

export interface FormerFanoutsPorts {
  readonly ask: () => Promise<FormerFanoutsState>;
  readonly monotonic: () => number;
}

/** Knows of which events fan-outs may stand in the table that they had for themselves (`FORMER_FANOUTS` in schema.ts). */
export class FormerFanouts {
  readonly #ports: FormerFanoutsPorts;
  #state: Promise<FormerFanoutsState> | null = null;
  #holdsUntilMs = -Infinity;

  constructor(ports: FormerFanoutsPorts) {
    this.#ports = ports;
  }

  /** @throws {EventStoreError} when it cannot be found out */
  async mayHave(receivedAtMs: number): Promise<boolean> {
    const { monotonic, ask } = this.#ports;
    if (this.#state === null || monotonic() >= this.#holdsUntilMs) {
      this.#holdsUntilMs = monotonic() + HOLDS_MS;
      const asked = ask();
      this.#state = asked;
      asked.catch(() => {
        if (this.#state === asked) this.#state = null;
      });
    }
    const { newestMs, upgradedMs } = await this.#state;
    const lateMs = newestMs === 0 ? 0 : newestMs + MARGIN_MS;
    return receivedAtMs <= Math.max(lateMs, upgradedMs === 0 ? 0 : upgradedMs + UPGRADE_MS);
  }
}
