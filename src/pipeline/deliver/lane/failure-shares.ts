/** Of fewer tries with less in flight nothing is concluded; and so many as theirs are added to what was seen with more. */
const LEAST_TRIES = 20;
/** By so much more must fail: a factor, and a share of all tries. */
const MORE_FACTOR = 1.5;
const MORE_SHARE = 0.05;
/** A receiver that fails more than this with less in flight is not well, whatever the cause. */
const MOST_SPREAD = 0.45;
/** What was seen counts for half as much after so long, or after so many tries. */
const HALF_LIFE_MS = 60_000;
const MOST_TRIES = 200;
/** Levels per doubling of what is in flight. */
const LEVELS_PER_DOUBLING = 2;

/** Tries that started with about as many in flight. */
interface Level {
  tries: number;
  failures: number;
  /** Steady time, ms. */
  agedAtMs: number;
}

/** How many tries failed, by how many were in flight when they started: it tells a receiver that is overloaded from one that fails at random. */
export class FailureShares {
  #levels: Level[] = [];

  /** `inFlight`: with this try; 1 or more. Steady time, ms. */
  note(inFlight: number, failed: boolean, nowMs: number): void {
    const level = this.#levelAt(levelOf(inFlight), nowMs);
    level.tries += 1;
    if (failed) level.failures += 1;
    if (level.tries <= MOST_TRIES) return;
    level.tries /= 2;
    level.failures /= 2;
  }

  /** Clearly more fail than with less in flight. */
  failMore(inFlight: number, nowMs: number): boolean {
    const level = levelOf(inFlight);
    const here = this.#levelAt(level, nowMs);
    return here.failures >= 1 && isMore(here, this.#below(level, nowMs));
  }

  /** As many are known to fail with less in flight, so that less would help nobody. */
  failAnyway(inFlight: number, nowMs: number): boolean {
    const level = levelOf(inFlight);
    const below = this.#below(level, nowMs);
    if (below.tries < LEAST_TRIES || shareOf(below) > MOST_SPREAD) return false;
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

/** The first few that fail may be chance: they are reckoned among as many as would fail with less in flight. */
function isMore(
  { tries, failures }: Pick<Level, "tries" | "failures">,
  below: Pick<Level, "tries" | "failures">,
): boolean {
  const usual = shareOf(below);
  const share = (failures + usual * LEAST_TRIES) / (tries + LEAST_TRIES);
  return share > usual * MORE_FACTOR + MORE_SHARE;
}

function shareOf({ tries, failures }: Pick<Level, "tries" | "failures">): number {
  return tries === 0 ? 0 : failures / tries;
}
