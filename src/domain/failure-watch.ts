import type { Clock } from "./clock.ts";
import type { ConsumerOptions } from "./log.ts";

/** A consumer that cannot join its group, or a store that is down, fails about once a second for as long as that lasts. */
const TELL_EVERY_MS = 60_000;
/** Most different failures that are told apart; messages may hold offsets. */
const MAX_REMEMBERED = 20;

export interface FailureWatchPorts {
  readonly clock: Pick<Clock, "monotonic">;
  /** Logs that it failed, and how often it did so for this reason since the last such line (this time included). */
  readonly failed: (fields: { readonly err: Error; readonly times: number }) => void;
  /** Logs that it works again, after how long, and how many failures no line told of. */
  readonly restored: (fields: { readonly afterMs: number; readonly untold: number }) => void;
}

/** Is told when something fails and when it works again, as by a consumer of the log. */
export type FailureWatch = Required<Pick<ConsumerOptions, "onError" | "onRestored">>;

interface Failure {
  readonly toldAtMs: number;
  /** How often it has occurred since, without a line. */
  untold: number;
}

/**
 * Tells why a consumer broke or a store does not answer: a failure at once, and the same one again at most once a minute. That it works
 * again is told only after such a line, so that what fails again every second does not fill the log with it either.
 */
export function makeFailureWatch({ clock, failed, restored }: FailureWatchPorts): FailureWatch {
  const failures = new Map<string, Failure>();
  let isTold = false;

  return {
    onError(error) {
      const nowMs = clock.monotonic();
      const what = describe(error);
      const known = failures.get(what);
      if (known !== undefined && nowMs - known.toldAtMs < TELL_EVERY_MS) {
        known.untold += 1;
        return;
      }
      failed({ err: error, times: (known?.untold ?? 0) + 1 });
      isTold = true;
      // Last, since the first is what is forgotten.
      failures.delete(what);
      failures.set(what, { toldAtMs: nowMs, untold: 0 });
      if (failures.size > MAX_REMEMBERED) failures.delete(failures.keys().next().value!);
    },
    onRestored(afterMs) {
      if (!isTold) return;
      isTold = false;
      let untold = 0;
      for (const failure of failures.values()) {
        untold += failure.untold;
        failure.untold = 0;
      }
      restored({ afterMs, untold });
    },
  };
}

function describe(error: Error): string {
  return error.cause instanceof Error
    ? `${error.message}: ${describe(error.cause)}`
    : error.message;
}
