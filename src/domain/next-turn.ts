/** Resolves in the next turn of the event loop: long work that awaits it now and then holds up nothing else. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
