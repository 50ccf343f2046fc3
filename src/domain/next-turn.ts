/** Resolves in the next turn of the event loop: long work that awaits it now and then holds up nothing else. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const ITEMS_PER_TURN = 500;

/** Calls `visit` with each item in order, a few hundred in each turn of the event loop. */
export async function visitInTurns<T>(
  items: readonly T[],
  visit: (item: T, index: number) => void,
): Promise<void> {
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % ITEMS_PER_TURN === 0) await nextTurn();
    visit(item, index);
  }
}
