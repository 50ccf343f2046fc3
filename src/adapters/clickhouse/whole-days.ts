/** Names of parts by table. */
export type WholeParts = ReadonlyMap<string, readonly string[]>;

/**
 * Parts that are a closed day by themselves, merged: nothing in them is there twice, so their rows can be counted as they
 * are, and from the counts that each part keeps (the projection `facets`).
 */
export const SELECT_WHOLE_PARTS = `
  SELECT table, any(name) AS part FROM system.parts
  WHERE active AND database = currentDatabase() AND table IN ('events', 'attempts')
  GROUP BY table, partition_id
  HAVING count() = 1 AND any(level) > 0 AND partition_id < toString(toYYYYMMDD(now('UTC')))
  ORDER BY table, part`;

export interface WholePart {
  readonly table: string;
  readonly part: string;
}

const NONE: WholeParts = new Map();
const ROUNDS = 3;

/** Answers that count whole days apart from the others, and yet are exact while parts come and go. */
export class WholeDays {
  readonly #list: () => Promise<readonly WholePart[]>;
  #known: readonly WholePart[] | null = null;

  constructor(list: () => Promise<readonly WholePart[]>) {
    this.#list = list;
  }

  /**
   * Asks with the parts as they were known, and again with those that there are, should these be others by then. Where
   * they keep changing, no part is taken for whole.
   */
  async ask<T>(question: (whole: WholeParts) => Promise<T>): Promise<T> {
    let before = this.#known ?? (await this.#list());
    for (let round = 1; round <= ROUNDS; round += 1) {
      const answer = await question(byTable(before));
      const after = await this.#list();
      this.#known = after;
      if (areSame(before, after)) return answer;
      before = after;
    }
    return question(NONE);
  }
}

function byTable(parts: readonly WholePart[]): WholeParts {
  const tables = new Map<string, string[]>();
  for (const { table, part } of parts) {
    const names = tables.get(table);
    if (names === undefined) tables.set(table, [part]);
    else names.push(part);
  }
  return tables;
}

function areSame(before: readonly WholePart[], after: readonly WholePart[]): boolean {
  return (
    before.length === after.length &&
    before.every(({ table, part }, at) => after[at]?.table === table && after[at].part === part)
  );
}
