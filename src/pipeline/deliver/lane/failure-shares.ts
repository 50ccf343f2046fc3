/**
 * Fewer tries than this with fewer in flight prove nothing; and this many, failing at the same share, are added to those seen
 * with more.
 */
const MIN_TRIES = 20;
/** How much higher the failure rate must be: as a factor, and as a share of all tries. */
const MORE_FACTOR = 1.5;
const MORE_SHARE = 0.05;
/** A receiver that fails more than this share with fewer in flight is not well, whatever the cause. */
const MAX_SPREAD = 0.45;
/** Observations count for half as much after this long, or after this many tries. */
const HALF_LIFE_MS = 60_000;
const MAX_TRIES = 200;
/** Levels per doubling of the number in flight. */
const LEVELS_PER_DOUBLING = 2;

/** Tries that started with about the same number in flight. */
interface Level {
  tries: number;
  failures: number;
  /** Steady time, ms. */
  agedAtMs: number;
}

/**
 * The share of tries that failed, by how many were in flight when they started: tells an overloaded receiver from one that
 * fails at random.
 */
export class FailureShares {
  #levels: Level[] = [];

  /** Notes the end of a try. `inFlight` includes it and is at least 1; `nowMs` is steady. */
  note(inFlight: number, failed: boolean, nowMs: number): void {
    const level = this.#levelAt(levelOf(inFlight), nowMs);
    level.tries += 1;
    if (failed) level.failures += 1;
    if (level.tries <= MAX_TRIES) return;
    level.tries /= 2;
    level.failures /= 2;
  }

  /** Returns whether clearly more fail than with fewer in flight. */
  failMore(inFlight: number, nowMs: number): boolean {
    const level = levelOf(inFlight);
    const here = this.#levelAt(level, nowMs);
    return here.failures >= 1 && isMore(here, this.#below(level, nowMs));
  }

  /** Returns whether as many are known to fail with fewer in flight, so that reducing the number would not help. */
  failAnyway(inFlight: number, nowMs: number): boolean {
    const level = levelOf(inFlight);
    const below = this.#below(level, nowMs);
    if (below.tries < MIN_TRIES || shareOf(below) > MAX_SPREAD) return false;
    return !isMore(this.#levelAt(level, nowMs), below);
  }

  forget(): void {
    this.#levels = [];
  }

  #below(level: number, nowMs: number): Pick<Level, "tries" | "failures"> {
    const below = { tries: 0, failures: 0 };
    for (let at = 0; at < level; at += 1) {
      const { tries, failures } = this.#levelAt(at, nowMs);
      below.tries += tries;
      below.failures += failures;
    }
    return below;
  }

  #levelAt(at: number, nowMs: number): Level {
    const level = (this.#levels[at] ??= { tries: 0, failures: 0, agedAtMs: nowMs });
    const kept = 0.5 ** ((nowMs - level.agedAtMs) / HALF_LIFE_MS);
    level.tries *= kept;
    level.failures *= kept;
    level.agedAtMs = nowMs;
    return level;
  }
}

function levelOf(inFlight: number): number {
  return Math.floor(LEVELS_PER_DOUBLING * Math.log2(inFlight));
}

/**
 * Returns whether more fail than `below`. The first few failures may be chance: they are diluted with tries that fail as
 * `below` does.
 */
function isMore(
  { tries, failures }: Pick<Level, "tries" | "failures">,
  below: Pick<Level, "tries" | "failures">,
): boolean {
  const usual = shareOf(below);
  const share = (failures + usual * MIN_TRIES) / (tries + MIN_TRIES);
  return share > usual * MORE_FACTOR + MORE_SHARE;
}

function shareOf({ tries, failures }: Pick<Level, "tries" | "failures">): number {
  return tries === 0 ? 0 : failures / tries;
}
