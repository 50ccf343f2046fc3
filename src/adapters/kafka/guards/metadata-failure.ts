interface Found {
  readonly broker: object;
}
type Ask = (found: Found) => Promise<unknown>;
interface BrokerPool {
  refreshMetadataIfNecessary(topics: readonly string[]): Promise<unknown>;
  withBroker(ask: Ask): Promise<unknown>;
}
interface Cluster {
  readonly brokerPool: BrokerPool;
  metadata: (this: Cluster, wanted?: object) => Promise<unknown>;
}

/**
 * Makes a look-up of metadata that no broker answers fail with the failure of the last one asked. kafkajs drops the failures and
 * returns null, which its admin takes for an answer: callers get a TypeError. `prototype` is that of kafkajs's cluster.
 */
export function keepMetadataFailure(prototype: object): void {
  const guarded = prototype as Cluster;
  const { metadata } = guarded;
  guarded.metadata = async function guardedMetadata(wanted) {
    const { brokerPool } = this;
    let failure: unknown = null;
    const keepingFailure: BrokerPool = {
      refreshMetadataIfNecessary: (topics) => brokerPool.refreshMetadataIfNecessary(topics),
      withBroker: (ask) =>
        brokerPool.withBroker(async (found) => {
          try {
            return await ask(found);
          } catch (error) {
            failure = error;
            throw error;
          }
        }),
    };
    const view = Object.assign(Object.create(this) as Cluster, { brokerPool: keepingFailure });
    const answer = await metadata.call(view, wanted);
    if (answer === null) throw failure;
    return answer;
  };
}
