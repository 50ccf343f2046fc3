/** How long an answer stays valid. */
const HOLDS_MS = 60_000;
/** How much newer than the newest event in the table an event can be whose fan-out is still on its way there. */
const MARGIN_MS = 10 * 60_000;
/** How long after the upgrade processes of an older version may still write there. */
const UPGRADE_MS = 24 * 3_600_000;

export interface FormerFanoutsState {
  /** Time of the newest event that has a fan-out in the former table; 0 where none has. */
  readonly newestMs: number;
  /** When the database was migrated to the schema without that table; 0 if it began with that schema. */
  readonly upgradedMs: number;
}

export interface FormerFanoutsPorts {
  readonly ask: () => Promise<FormerFanoutsState>;
  readonly monotonic: () => number;
}

/** Knows which events may have fan-outs in the table that was theirs alone (`FORMER_FANOUTS` in schema.ts). */
export class FormerFanouts {
  readonly #ports: FormerFanoutsPorts;
  #state: Promise<FormerFanoutsState> | null = null;
  #holdsUntilMs = -Infinity;

  constructor(ports: FormerFanoutsPorts) {
    this.#ports = ports;
  }

  /** @throws {EventStoreError} when the state cannot be read */
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
