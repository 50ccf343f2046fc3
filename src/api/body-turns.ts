import { nextTurn } from "../domain/next-turn.ts";

/** To parse a larger body, and to check what it holds, takes milliseconds. */
const LARGE_BYTES = 16 * 1024;

/** Resolves when a body of this size may be parsed. */
export type BodyTurn = (sizeBytes: number) => Promise<void>;

/**
 * Lets one large body be parsed in each turn of the event loop: a caller that sends one on each of many connections would fill every
 * turn with them, and a webhook takes several turns. Small ones never wait.
 */
export function makeBodyTurns(): BodyTurn {
  let last = Promise.resolve();
  return async (sizeBytes) => {
    if (sizeBytes <= LARGE_BYTES) return;
    last = last.then(nextTurn);
    await last;
  };
}
