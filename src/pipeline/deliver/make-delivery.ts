import { makeFailureWatch } from "../../domain/failure-watch.ts";
import { isOwnershipOver } from "../../domain/log.ts";
import type { LogConsumer, OwnedPartition, Topic } from "../../domain/log.ts";
import { guardedLookup } from "./guarded-lookup.ts";
import { BodyCopies } from "./bounds/body-copies.ts";
import { IntakeBudget } from "./bounds/intake-budget.ts";
import { RECOVERY_TOPICS } from "./partition/log-positions.ts";
import { PartitionOwner } from "./partition/partition-owner.ts";
import { SOURCE_TOPICS } from "./partition/partition-positions.ts";
import type { SourceTopic } from "./partition/partition-positions.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "./delivery-options.ts";
import type { DeliveryOptions } from "./delivery-options.ts";
import type { DeliveryPorts } from "./ports.ts";
import { Recoveries } from "./recovery/recoveries.ts";
import { REMEMBERED_RUNS, RunLedger } from "./recovery/run-ledger.ts";
import { SendGate } from "./bounds/send-gate.ts";
import { IntakeTurns } from "./bounds/intake-turns.ts";
import type { SharedDelivery } from "./shared-delivery.ts";
import { makeSteadyClock } from "./steady-clock.ts";

const DELIVERY_GROUP = "delivery";
/** Grace for work underway in a revoked partition, out of the 5 s the log allows: the rest is for commits. */
const REVOKE_GRACE_MS = 4_000;

export interface Delivery extends AsyncDisposable {
  start(): Promise<void>;
  /** Returns the number of records not yet committed, by topic. */
  lag(): Promise<ReadonlyMap<Topic, number>>;
}

/**
 * Runs fan-out and delivery: owns partitions of `events` and `tasks`, sends, and records how each try ended. `ownerId` must be
 * new for each start of the process. Disposing stops gracefully: nothing more starts, tries in flight get `stopGraceMs`, then
 * everything is committed.
 */
export function makeDelivery(
  ports: DeliveryPorts,
  given: Partial<DeliveryOptions> & Pick<DeliveryOptions, "ownerId" | "version">,
): Delivery {
  const options: DeliveryOptions = { ...DEFAULT_DELIVERY_OPTIONS, ...given };
  const owners = new Map<OwnedPartition, PartitionOwner>();
  /** Owners of revoked partitions that still have tries in flight. */
  const revoked = new Set<PartitionOwner>();
  const cutOff = new AbortController();
  const shared = makeShared(ports, options, cutOff.signal);
  let assignments = 0;
  let consumer: LogConsumer | null = null;
  let cancelSweep: (() => void) | null = null;
  let stopListening: (() => void) | null = null;
  let stopping: Promise<void> | null = null;
  let leaving: Promise<void> | null = null;

  async function start(): Promise<void> {
    stopListening = ports.onDestinationChanged((destinationId) => {
      for (const owner of owners.values()) owner.onDestinationChanged(destinationId);
    });
    consumer = await ports.log.consume({
      group: DELIVERY_GROUP,
      topics: SOURCE_TOPICS,
      sideTopics: [...RECOVERY_TOPICS, "limits"],
      async onAssigned(partition) {
        if (stopping !== null) {
          // No partition is owned here any more: leave at once, so that other processes can begin.
          if (owners.size === 0) void leave();
          return;
        }
        assignments += 1;
        const assignmentId = `${options.ownerId}/${assignments}`;
        const owner = new PartitionOwner(shared, partition, assignmentId);
        // Registered before it has recovered: ownership may end meanwhile, and `onRevoked` must then find it.
        owners.set(partition, owner);
        await shared.recoveries.track(owner.recover());
      },
      async onRevoked(partition) {
        const owner = owners.get(partition);
        if (owner === undefined) return;
        owners.delete(partition);
        revoked.add(owner);
        const closed = owner.close(REVOKE_GRACE_MS);
        // Work that outlasts the grace for the last commits goes on in the background.
        void owner.close(options.stopGraceMs).finally(() => revoked.delete(owner));
        await closed;
      },
      onRecords: (partition, topic, records) =>
        owners.get(partition)?.take(topic as SourceTopic, records),
      ...makeFailureWatch({
        clock: ports.clock,
        failed: (fields) => ports.logger.error(fields, "delivery.consumer_failed"),
        restored: (fields) => ports.logger.info(fields, "delivery.consumer_restored"),
      }),
    });
    sweepLater();
  }

  function sweepLater(): void {
    cancelSweep = ports.clock.schedule(options.heldSweepMs, () => {
      void sweep().then(() => (stopping === null ? sweepLater() : undefined));
    });
  }

  async function sweep(): Promise<void> {
    for (const owner of owners.values())
      try {
        await owner.sweep();
      } catch (error) {
        if (!isOwnershipOver(error)) ports.logger.warn({ err: error }, "delivery.sweep_failed");
      }
  }

  async function stop(): Promise<void> {
    cancelSweep?.();
    stopListening?.();
    const ending = [...owners.values(), ...revoked].map((owner) =>
      owner.close(options.stopGraceMs),
    );
    // Anything still underway belongs to revoked partitions, and their new owners do not wait for it.
    if (owners.size === 0) void leave();
    await Promise.all(ending);
    cutOff.abort();
    await leave();
    owners.clear();
  }

  function leave(): Promise<void> {
    leaving ??= (async () => consumer?.[Symbol.asyncDispose]())();
    return leaving;
  }

  return {
    start,
    lag: () => consumer?.lag() ?? Promise.resolve(new Map()),
    [Symbol.asyncDispose]: () => (stopping ??= stop()),
  };
}

function makeShared(
  ports: DeliveryPorts,
  options: DeliveryOptions,
  cutOff: AbortSignal,
): SharedDelivery {
  let queued = 0;
  const budget = new IntakeBudget(options.maxPendingBytes, null, (bytes) =>
    ports.metrics.queued(queued, bytes),
  );
  return {
    ports,
    options,
    cutOff,
    budget,
    gate: new SendGate(
      { max: options.maxInFlight, maxPerReceiver: options.connectionsPerReceiver },
      (count) => ports.metrics.inFlight(count),
    ),
    copies: new BodyCopies(options.maxPendingBytes),
    turns: new IntakeTurns(options, ports.clock),
    steadyNow: makeSteadyClock(ports.clock),
    recent: new RunLedger(REMEMBERED_RUNS),
    recoveries: new Recoveries(),
    lookUp: (destinationId) =>
      guardedLookup(ports.logger, { destinationId }, () => ports.destination(destinationId)),
    destinationsOf: (endpointId) =>
      guardedLookup(ports.logger, { endpointId }, () => ports.destinationsOf(endpointId)),
    onQueued(change) {
      queued += change;
      ports.metrics.queued(queued, budget.bytes);
    },
  };
}
