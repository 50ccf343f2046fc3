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
