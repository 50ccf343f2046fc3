export interface DeliveryOptions {
  /** Names this process in the log's `released` markers. */
  readonly ownerId: string;
  /** `user-agent` is `webhook-relay/<version>`. */
  readonly version: string;
  readonly retryBaseMs: number;
  /** The timeout of one whole try. The sender enforces it; here it is only used in calculations. */
  readonly deliveryTimeoutMs: number;
  /** Maximum tries in flight per destination. */
  readonly concurrency: number;
  readonly retentionMs: number;
  /**
   * The wait between an assignment and its first try if the last owner left no marker: that owner's tries in flight end
   * meanwhile. 0 if there is only one owner.
   */
  readonly takeoverWaitMs: number;
  /** Maximum tries in flight in this process. */
  readonly maxInFlight: number;
  /** Maximum tries in flight to one receiver URL, however many destinations share it: the sender's connections. */
  readonly connectionsPerReceiver: number;
  /** An event with more destinations than this is taken in over several turns of the event loop. */
  readonly maxTasksAtOnce: number;
  /**
   * How many tasks of such an event are taken in one turn, or records of a batch that has more than this; and as many more as
   * `turnMs` is enough for.
   */
  readonly turnItems: number;
  readonly turnMs: number;
  /**
   * Maximum bytes of records taken in and not complete, whole process; a partition takes at most a quarter. One record counts
   * for at most a third of either.
   */
  readonly maxPendingBytes: number;
  /** Maximum bytes waiting in one lane; at most half as many are in flight. A single body may always exceed this. */
  readonly laneBytes: number;
  readonly commitIntervalMs: number;
  /** How often held destinations are checked without a change notice; at most 60 s. */
  readonly heldSweepMs: number;
  /** How long a graceful stop waits for tries in flight; their ends are then recorded, and the stores closed, before it is over. */
  readonly stopGraceMs: number;
  readonly breaker: BreakerOptions;
}

export interface BreakerOptions {
  /** The weight of consecutive failures that opens the circuit: a failure weighs 1, a timeout 4. */
  readonly failures: number;
  /** The failures must also span this long: the retries of a single event must not open it. */
  readonly minStreakMs: number;
  /**
   * Alternatively, failed first tries and the start times of their runs must both span this long: new runs that keep failing
   * show sooner than retries do that the receiver is down.
   */
  readonly minNewRunsMs: number;
  readonly openMs: number;
  /** The pause doubles after each failed probe, up to this. */
  readonly maxOpenMs: number;
}

export const DEFAULT_DELIVERY_OPTIONS = {
  retryBaseMs: 30_000,
  deliveryTimeoutMs: 15_000,
  concurrency: 64,
  retentionMs: 30 * 86_400_000,
  takeoverWaitMs: 0,
  maxInFlight: 4_096,
  connectionsPerReceiver: 64,
  maxTasksAtOnce: 64,
  turnItems: 16,
  turnMs: 5,
  maxPendingBytes: 128 * 1_048_576,
  laneBytes: 16 * 1_048_576,
  commitIntervalMs: 100,
  heldSweepMs: 30_000,
  stopGraceMs: 22_000,
  breaker: {
    failures: 20,
    minStreakMs: 30_000,
    minNewRunsMs: 5_000,
    openMs: 10_000,
    maxOpenMs: 300_000,
  },
} as const satisfies Omit<DeliveryOptions, "ownerId" | "version">;
