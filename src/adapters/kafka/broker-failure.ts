export interface BrokerFailure {
  /** `host:port` of the broker that failed, if one did. */
  readonly broker?: string;
  readonly err: string;
}

/** Returns what a log line tells of an error of the client, whose text often leaves out which broker it is about. */
export function brokerFailure(error: unknown): BrokerFailure {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    const { broker } = inner as Error & Pick<BrokerFailure, "broker">;
    if (broker !== undefined) return { broker, err: String(inner) };
  }
  return { err: String(error) };
}
