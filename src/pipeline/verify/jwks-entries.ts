/** What is known about one URL's keys. */
export interface JwksEntry {
  jwks: object | null;
  fetchedAtMs: number;
  triedAtMs: number;
  refreshedAtMs: number;
  failure: string;
}

export interface JwksEntriesLimits {
  readonly maxUrls: number;
  /** Size of all keys together, as JSON. */
  readonly maxBytes: number;
}

/** Share of a limit that is kept once something has to go, so that not every newcomer causes another removal. */
const KEPT_SHARE = 0.9;

interface Sized {
  readonly entry: JwksEntry;
  sizeBytes: number;
}

/**
 * A bounded set of entries. Over `maxUrls`, URLs without keys go first, since one customer can ask for any number of them, then
 * those unused for longest; over `maxBytes`, the largest sets go. While a URL is unreachable, the keys kept here are all that
 * its webhooks can be verified by.
 */
export class JwksEntries {
  readonly #limits: JwksEntriesLimits;
  /** In the order of last use. */
  readonly #entries = new Map<string, Sized>();
  #bytes = 0;

  constructor(limits: JwksEntriesLimits) {
    this.#limits = limits;
  }

  /** Returns the entry of a URL, a new one when none is known. */
  use(url: string): JwksEntry {
    const known = this.#entries.get(url);
    if (known !== undefined) this.#entries.delete(url);
    const sized = known ?? { entry: newEntry(), sizeBytes: 0 };
    this.#entries.set(url, sized);
    this.#keepWithin(url);
    return sized.entry;
  }

  /** Sets the keys that were fetched for an entry. An entry forgotten meanwhile stays forgotten. */
  setKeys(url: string, entry: JwksEntry, jwks: object): void {
    entry.jwks = jwks;
    const sized = this.#entries.get(url);
    if (sized?.entry !== entry) return;
    const sizeBytes = JSON.stringify(jwks).length;
    this.#bytes += sizeBytes - sized.sizeBytes;
    sized.sizeBytes = sizeBytes;
    this.#keepWithin(url);
  }

  #keepWithin(newest: string): void {
    const { maxUrls, maxBytes } = this.#limits;
    if (this.#bytes > maxBytes)
      this.#removeUntil(() => this.#bytes <= maxBytes * KEPT_SHARE, bySize, newest);
    if (this.#entries.size > maxUrls)
      this.#removeUntil(() => this.#entries.size <= maxUrls * KEPT_SHARE, byKeys, newest);
  }

  #removeUntil(
    isEnough: () => boolean,
    order: (one: Named, other: Named) => number,
    newest: string,
  ): void {
    for (const [url, { sizeBytes }] of [...this.#entries].sort(order)) {
      if (isEnough()) return;
      if (url === newest) continue;
      this.#entries.delete(url);
      this.#bytes -= sizeBytes;
    }
  }
}

type Named = readonly [string, Sized];

function bySize([, one]: Named, [, other]: Named): number {
  return other.sizeBytes - one.sizeBytes;
}

/** The sort is stable: those unused for longest come first among equals. */
function byKeys([, { entry: one }]: Named, [, { entry: other }]: Named): number {
  return Number(one.jwks !== null) - Number(other.jwks !== null);
}

function newEntry(): JwksEntry {
  return {
    jwks: null,
    fetchedAtMs: -Infinity,
    triedAtMs: -Infinity,
    refreshedAtMs: -Infinity,
    failure: "",
  };
}
