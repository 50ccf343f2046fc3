import { EventStoreError } from "../../domain/event-store.ts";
import { withinOrCalledOff } from "../../domain/follow-signal.ts";

/** How long the server's own clear answer to a query over its limit may take beyond that limit. */
const ANSWER_MS = 2_000;
/** With less than this share of its limit left, a query is not begun: it would mostly be cut off, and hold up others until then. */
const MIN_LEFT_SHARE = 1 / 4;

/**
 * Runs a read until `signal` ends it, or until the server, which may run it for `maxSeconds`, has said nothing for longer.
 * @param read calls `began` when its turn has come, which throws if that is too late
 * @throws {EventStoreError} `store_unavailable` if the server says nothing, without waiting for the read itself to end;
 *   `store_busy` when its turn came too late
 */
export async function withReadDeadline<T>(
  maxSeconds: number,
  signal: AbortSignal | undefined,
  read: (signal: AbortSignal, began: () => void) => Promise<T>,
): Promise<T> {
  const limitMs = maxSeconds * 1_000;
  const untilMs = performance.now() + limitMs + ANSWER_MS;
  let beganAtMs = Infinity;
  const began = (): void => {
    const nowMs = performance.now();
    if (untilMs - nowMs < limitMs * MIN_LEFT_SHARE) throw turnTooLate(maxSeconds);
    beganAtMs = nowMs;
  };
  const late = (): never => {
    const wasAsked = performance.now() - beganAtMs >= limitMs;
    if (!wasAsked) throw turnTooLate(maxSeconds);
    throw new EventStoreError(
      "store_unavailable",
      `ClickHouse has not answered ${ANSWER_MS / 1_000} s after a query's limit of ${maxSeconds} s`,
    );
  };
  return withinOrCalledOff(signal, limitMs + ANSWER_MS, (ended) => read(ended, began), late);
}

function turnTooLate(maxSeconds: number): EventStoreError {
  return new EventStoreError(
    "store_busy",
    `Of ${maxSeconds + ANSWER_MS / 1_000} s a query has waited too long for its turn`,
  );
}
