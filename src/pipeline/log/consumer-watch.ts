import type { Clock } from "../../domain/clock.ts";
import type { ConsumerOptions } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";

/** A consumer that cannot join its group fails about once a second, for as long as what it lacks is missing. */
const TELL_EVERY_MS = 60_000;
/** Most different failures that are told apart; messages may hold offsets. */
const MOST_REMEMBERED = 20;

interface Failure {
  readonly toldAtMs: number;
  /** How often it has occurred since, without a line. */
  untold: number;
}

/**
 * Logs why a consumer broke (`<stage>.consumer_failed`): a failure at once, and the same one again at most once a minute, with how
 * often it occurred (`times`). `<stage>.consumer_restored` says that it works again, and how many failures no line told of; it
 * follows such a line only, so that a consumer that breaks again every second does not fill the log with it either.
 */
export function makeConsumerWatch(
  stage: "delivery" | "delay" | "record",
  ports: { readonly clock: Pick<Clock, "monotonic">; readonly logger: Logger },
): Required<Pick<ConsumerOptions, "onError" | "onRestored">> {
  const failures = new Map<string, Failure>();
  let isTold = false;

  return {
    onError(error) {
      const nowMs = ports.clock.monotonic();
      const what = describe(error);
      const known = failures.get(what);
      if (known !== undefined && nowMs - known.toldAtMs < TELL_EVERY_MS) {
        known.untold += 1;
        return;
      }
      ports.logger.error(
        { err: error, times: (known?.untold ?? 0) + 1 },
        `${stage}.consumer_failed`,
      );
      isTold = true;
      // Last, since the first is what is forgotten.
      failures.delete(what);
      failures.set(what, { toldAtMs: nowMs, untold: 0 });
      if (failures.size > MOST_REMEMBERED) failures.delete(failures.keys().next().value!);
    },
    onRestored(afterMs) {
      if (!isTold) return;
      isTold = false;
      let untold = 0;
      for (const failure of failures.values()) {
        untold += failure.untold;
        failure.untold = 0;
      }
      ports.logger.info({ afterMs, untold }, `${stage}.consumer_restored`);
    },
  };
}

function describe(error: Error): string {
  return error.cause instanceof Error
    ? `${error.message}: ${describe(error.cause)}`
    : error.message;
}
