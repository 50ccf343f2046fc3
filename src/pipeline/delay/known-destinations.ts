import type { DestinationConfig } from "../../domain/destination.ts";
import { mayGoSooner, paceOf } from "../../domain/rate-limit.ts";
import type { LimitPace } from "../../domain/rate-limit.ts";

/** Maximum destinations that are remembered. */
const MAX_KNOWN = 10_000;
/** Any limit may let tasks go sooner than this one. */
const SLOWEST: LimitPace = { perHour: 0, windowMs: Number.POSITIVE_INFINITY };

interface Known {
  readonly pace: LimitPace;
  readonly receiverUrl: string;
  readonly isActive: boolean;
}

/** What a change may do for tasks that wait in delay tiers. */
export interface ChangeEffect {
  /** Whether any of them may go sooner. */
  readonly mayRecall: boolean;
  /** Whether the destination has another receiver, or was resumed: what its receiver put off need not wait any more. */
  readonly isMended: boolean;
}

/** The latest known state of destinations that were changed: other changes must not have everything that waits read again. */
export class KnownDestinations {
  readonly #known = new Map<string, Known>();

  /** Returns what the change to this state may do; of the first one that it sees it assumes all. */
  learn(config: DestinationConfig): ChangeEffect {
    const { id, receiverUrl } = config;
    const known = this.#known.get(id);
    const isActive = config.status === "active";
    const pace = isActive ? paceOf(config) : (known?.pace ?? SLOWEST);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(id, { pace, receiverUrl, isActive });
    const isSame = known?.isActive === true && known.receiverUrl === receiverUrl;
    const isMended = isActive && !isSame;
    const isFaster = isActive && mayGoSooner(pace, known?.pace ?? SLOWEST);
    return { mayRecall: isMended || isFaster, isMended };
  }
}
