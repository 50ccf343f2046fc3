export interface TurnCount extends Disposable {
  /** How often the event loop has turned since the count began. */
  readonly count: number;
}

/** Counts turns of the event loop, in each of which other work of the process can be done. */
export function countTurns(): TurnCount {
  let count = 0;
  let next = setImmediate(onTurn);
  function onTurn(): void {
    count += 1;
    next = setImmediate(onTurn);
  }
  return {
    get count() {
      return count;
    },
    [Symbol.dispose]: () => clearImmediate(next),
  };
}
