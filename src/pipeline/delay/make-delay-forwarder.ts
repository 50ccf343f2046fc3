import { DELAY_TIERS } from "../../domain/delay-tier.ts";
import { makeFailureWatch } from "../../domain/failure-watch.ts";
import type { LogConsumer, OwnedPartition, Topic } from "../../domain/log.ts";
import { partitionOf } from "../../domain/partition.ts";
import type { DelayPorts } from "./ports.ts";
import { Recall } from "./recall.ts";
import { TierForwarder } from "./tier-forwarder.ts";

const DELAY_GROUP = "delay";
/** Maximum bytes kept in memory per tier and partition while the head is not due. */
const BATCH_BYTES = 64 * 1_024;

export interface DelayForwarder extends AsyncDisposable {
  start(): Promise<void>;
  /** Returns the number of tasks that wait in the tiers, by topic. */
  lag(): Promise<ReadonlyMap<Topic, number>>;
}

/**
 * Moves tasks on from the delay tiers when their time has come: to the largest tier that still fits, or to `tasks` if they are
 * due soon (`topicForDelay`). A crash between publishing and committing publishes twice; the delivery drops the second copy.
 */
export function makeDelayForwarder(ports: DelayPorts): DelayForwarder {
  const delays = new Map(DELAY_TIERS.map((tier) => [tier.topic, tier.delayMs]));
  const owned = new Map<OwnedPartition, Map<Topic, TierForwarder>>();
  const recall = new Recall({
    ...ports,
    partitionOf: (endpointId) => partitionOf(endpointId, ports.log.partitions),
    ownedPartitions: () => Array.from(owned.keys(), ({ partition }) => partition),
    tiersOf,
  });
  let consumer: LogConsumer | null = null;
  let stopping: Promise<void> | null = null;

  function tierOf(partition: OwnedPartition, topic: Topic): TierForwarder | undefined {
    const tiers = owned.get(partition);
    if (tiers === undefined) return undefined;
    const known = tiers.get(topic);
    if (known !== undefined) return known;
    const tier = new TierForwarder(ports, partition, topic, delays.get(topic) ?? 0);
    tiers.set(topic, tier);
    return tier;
  }

  function tiersOf(number: number): TierForwarder[] {
    const partition = [...owned.keys()].find((one) => one.partition === number);
    if (partition === undefined) return [];
    return [...delays.keys()].flatMap((topic) => tierOf(partition, topic) ?? []);
  }

  async function release(partition: OwnedPartition): Promise<void> {
    const tiers = owned.get(partition);
    owned.delete(partition);
    await Promise.all([...(tiers?.values() ?? [])].map((tier) => tier.close()));
  }

  async function stop(): Promise<void> {
    recall.stop();
    await Promise.all([...owned.keys()].map((partition) => release(partition)));
    await consumer?.[Symbol.asyncDispose]();
  }

  return {
    async start() {
      recall.start();
      consumer = await ports.log.consume({
        group: DELAY_GROUP,
        topics: DELAY_TIERS.map((tier) => tier.topic),
        maxBatchBytes: BATCH_BYTES,
        async onAssigned(partition) {
          owned.set(partition, new Map());
          recall.onAssigned(partition.partition);
        },
        onRevoked: release,
        onRecords: (partition, topic, records) => tierOf(partition, topic)?.forward(records),
        ...makeFailureWatch({
          clock: ports.clock,
          failed: (fields) => ports.logger.error(fields, "delay.consumer_failed"),
          restored: (fields) => ports.logger.info(fields, "delay.consumer_restored"),
        }),
      });
    },
    lag: () => consumer?.lag() ?? Promise.resolve(new Map()),
    [Symbol.asyncDispose]: () => (stopping ??= stop()),
  };
}
