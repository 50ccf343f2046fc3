import type { ProduceAnswer } from "../produce/produce-answers.ts";

/** REQUEST_TIMED_OUT: the other replicas did not have it in time. */
const NOT_CONFIRMED = 7;

/** Brokers whose last answer said that the other replicas did not have something in time. */
const doubtful = new WeakSet<object>();
/** Those about which nobody was asked since. */
const unasked = new WeakSet<object>();

/**
 * Notes how a broker has answered what was produced. One that the controller cannot reach does not hear that its partitions have another
 * leader: it goes on as theirs, gives itself as their leader to whoever asks, and answers only that nothing was confirmed in time.
 */
export function noteAnswer(broker: object, { topics }: ProduceAnswer): void {
  const isConfirmed = topics.every(({ partitions }) =>
    partitions.every(({ errorCode }) => errorCode !== NOT_CONFIRMED),
  );
  if (isConfirmed) {
    doubtful.delete(broker);
    return;
  }
  doubtful.add(broker);
  unasked.add(broker);
}

/** Returns whether a broker may not know who leads what. */
export function isDoubtful(broker: object): boolean {
  return doubtful.has(broker);
}

/** Returns whether leaders are to be looked up because of one of these brokers, once for each of its answers. */
export function takeDoubts(brokers: readonly object[]): boolean {
  return brokers.filter((broker) => unasked.delete(broker)).length > 0;
}
