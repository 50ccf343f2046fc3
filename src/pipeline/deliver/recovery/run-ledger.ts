import type { FollowUp } from "../../../domain/outcome.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";

/** Where a run stands: tries count first, deferrals of the same try second. */
export interface Step {
  readonly tryNumber: number;
  readonly deferrals: number;
}

/** How many runs a process remembers after they have gone on: a copy of a task may come minutes late. */
export const REMEMBERED_RUNS = 100_000;

/** How a step ended; `followUp` is null if the run ended with it. */
interface End extends Step {
  readonly followUp: FollowUp | null;
}

interface RunFacts {
  /** The latest end that is durable, with what follows it. */
  ended: End | null;
  /** The step of the latest task that is durable in a delay tier, in `held` or in `tasks`. */
  waiting: Step | null;
}

/** Whether a task is still to be made, judging by what is durable of its run. */
export type TaskStanding =
  /** Not before `notBeforeMs`: a copy of a deferred try may still carry its earlier due time. */
  | { readonly kind: "go"; readonly notBeforeMs: number }
  /** Its end or its successor is durable: nothing is left to do. */
  | { readonly kind: "superseded" }
  /** Its end is durable, but its follow-up is not: publish it. */
  | { readonly kind: "follow_up"; readonly followUp: FollowUp };

/** Returns a negative number if `a` comes before `b`. */
function compareSteps(a: Step, b: Step): number {
  return a.tryNumber - b.tryNumber || a.deferrals - b.deferrals;
}

/** Returns whether the step ended by putting the same try off. */
function isPutOff({ tryNumber, followUp }: End): boolean {
  return followUp?.tryNumber === tryNumber;
}

/**
 * What is durable of each run. Facts only ever grow, so a stale one does no harm. Beyond `maxRuns`, the runs noted first are
 * forgotten first.
 */
export class RunLedger {
  readonly #runs = new Map<string, RunFacts>();
  /**
   * Keys of all runs, oldest first; kept only if some are to be forgotten. A Map finds its first key only by scanning past all
   * deleted ones.
   */
  readonly #order = new RingQueue<string>();
  readonly #maxRuns: number;

  constructor(maxRuns = Number.POSITIVE_INFINITY) {
    this.#maxRuns = maxRuns;
  }

  get size(): number {
    return this.#runs.size;
  }

  /** Tells whether anything of the run is known to be durable. */
  has(key: string): boolean {
    return this.#runs.has(key);
  }

  noteEnd(key: string, { tryNumber, deferrals }: Step, followUp: FollowUp | null): void {
    const facts = this.#facts(key);
    const end: End = { tryNumber, deferrals, followUp };
    if (facts.ended === null || this.#takesPlaceOf(facts.ended, end)) facts.ended = end;
  }

  /** Notes an end that may be older than what is known: a known end of the same step stands, unless it is a deferral. */
  noteEarlierEnd(key: string, step: Step, followUp: FollowUp | null): void {
    const ended = this.#runs.get(key)?.ended ?? null;
    if (ended === null || compareSteps(step, ended) !== 0 || isPutOff(ended))
      this.noteEnd(key, step, followUp);
  }

  noteWaiting(key: string, step: Step): void {
    const facts = this.#facts(key);
    if (facts.waiting === null || compareSteps(step, facts.waiting) > 0)
      facts.waiting = { tryNumber: step.tryNumber, deferrals: step.deferrals };
  }

  /** Takes over what another ledger knows, and empties it. */
  absorb(other: RunLedger): void {
    for (const [key, { ended, waiting }] of other.#runs) {
      if (ended !== null) this.noteEnd(key, ended, ended.followUp);
      if (waiting !== null) this.noteWaiting(key, waiting);
    }
    other.#runs.clear();
    other.#order.clear();
  }

  judge(key: string, step: Step): TaskStanding {
    const facts = this.#runs.get(key);
    if (facts === undefined) return { kind: "go", notBeforeMs: 0 };
    const { ended, waiting } = facts;
    if (waiting !== null && compareSteps(waiting, step) > 0) return { kind: "superseded" };
    // Nothing follows the end of a run: a copy that was put off or held meanwhile is over as well.
    if (ended?.followUp === null) return { kind: "superseded" };
    if (ended === null) return { kind: "go", notBeforeMs: 0 };
    const { followUp } = ended;
    // What comes before the follow-up is over, even a copy of the try that was put off one more time than the one that was made.
    const order = compareSteps(step, followUp);
    if (order >= 0) return { kind: "go", notBeforeMs: order === 0 ? followUp.dueAtMs : 0 };
    return { kind: "follow_up", followUp };
  }

  /**
   * Returns whether an end that comes now replaces the known one:
   * - For the same step the last end stands, as in the store; but a deferral, a separate row there, replaces no try that was
   *   made.
   * - The end of the run is not replaced by that of another step, whatever a second copy came to.
   * - Otherwise the end of a later step replaces it, and so does the end of the run.
   */
  #takesPlaceOf(known: End, end: End): boolean {
    const order = compareSteps(end, known);
    if (order === 0) return !isPutOff(end) || isPutOff(known);
    if (known.followUp === null) return false;
    return order > 0 || end.followUp === null;
  }

  #facts(key: string): RunFacts {
    const known = this.#runs.get(key);
    if (known !== undefined) return known;
    const facts: RunFacts = { ended: null, waiting: null };
    this.#runs.set(key, facts);
    if (this.#maxRuns === Number.POSITIVE_INFINITY) return facts;
    this.#order.push(key);
    if (this.#runs.size > this.#maxRuns) this.#runs.delete(this.#order.shift()!);
    return facts;
  }
}
