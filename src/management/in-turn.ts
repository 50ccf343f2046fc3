/**
 * Runs the part of a use case that needs the store's connections, when it is its turn. A use case that waits for DNS first takes
 * its turn after that: a name server that does not answer keeps no other write waiting.
 */
export type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** For callers whose writes take no turns. */
export const atOnce: InTurn = (work) => work();
