import { TIMERS } from "./clock.ts";
import { within } from "./within.ts";

/**
 * Returns a controller that aborts with `signal` until `unfollow` is called, and can be aborted by itself. Not `AbortSignal.any`: Node
 * keeps a combined signal, and everything that listens to it, for as long as it has a listener.
 */
export function followSignal(signal: AbortSignal | undefined): {
  readonly follower: AbortController;
  readonly unfollow: () => void;
} {
  const follower = new AbortController();
  const giveUp = (): void => follower.abort(signal?.reason);
  if (signal?.aborted === true) giveUp();
  signal?.addEventListener("abort", giveUp, { once: true });
  return { follower, unfollow: () => signal?.removeEventListener("abort", giveUp) };
}

/**
 * Like `within`, by the real clock, for work that can be called off: the signal that it gets is aborted with `signal`, and when it is late.
 * @param late what to return or throw then
 */
export function withinOrCalledOff<T, L>(
  signal: AbortSignal | undefined,
  ms: number,
  work: (ended: AbortSignal) => Promise<T>,
  late: () => L,
): Promise<T | L> {
  const { follower, unfollow } = followSignal(signal);
  const callOff = (): L => {
    follower.abort();
    return late();
  };
  return within(work(follower.signal), ms, callOff, TIMERS).finally(unfollow);
}
