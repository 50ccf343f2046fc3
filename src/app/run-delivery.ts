import { randomUUID } from "node:crypto";
import { makeEventStoreWriter } from "../adapters/clickhouse/insert.ts";
import { makeConfigStore } from "../adapters/postgres/config-store.ts";
import { makeDelayMetrics, makeDeliverMetrics } from "../adapters/prometheus/deliver-metrics.ts";
import { makeRecordMetrics } from "../adapters/prometheus/record-metrics.ts";
import { RELAY_VERSION } from "../config/version.ts";
import { disableDestination } from "../management/disable-destination.ts";
import { makeDurableAppender } from "../pipeline/attempts/durable-appender.ts";
import { makeDelayForwarder, type DelayForwarder } from "../pipeline/delay/make-delay-forwarder.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../pipeline/deliver/delivery-options.ts";
import { makeDelivery, type Delivery } from "../pipeline/deliver/make-delivery.ts";
import type { DeliveryPorts } from "../pipeline/deliver/ports.ts";
import { planFanout } from "../pipeline/fanout/plan-fanout.ts";
import { makeRecorder, type Recorder } from "../pipeline/record/make-recorder.ts";
import { signDelivery } from "../signing/standard-webhooks.ts";
import { connectionLimit } from "./connection-limit.ts";
import { requireEventStore, type Core } from "./core.ts";
import { makeOwnerId } from "./installation.ts";
import { connectionsPerReceiver } from "./outbound.ts";
import { retentionMsOf } from "./retention.ts";
import type { Part } from "./supervisor.ts";

/** How long after its timeout a lost owner's try in flight may be cut off and its end become durable. */
const LATE_END_MS = 2_000;

/** Runs the delivery role: records the log in the event store, fans events out, delivers them and moves the delay tiers. */
export async function runDelivery(core: Core): Promise<void> {
  await runRecorder(core);
  const { clock, logger, log, registry, supervisor } = core;
  const appender = makeDurableAppender({ log, clock, logger });
  const metrics = makeDelayMetrics(registry);
  const destinations = core.cache;
  await supervisor.add(
    consumer(core, "delay", () =>
      makeDelayForwarder({ log, appender, clock, logger, metrics, destinations }),
    ),
  );
  const ports = deliveryPorts(core, appender);
  await supervisor.add(
    consumer(core, "delivery", () =>
      makeDelivery(ports, {
        ownerId: makeOwnerId(core.tokens.installation, randomUUID()),
        version: RELAY_VERSION,
        retryBaseMs: core.config.retryBaseMs,
        deliveryTimeoutMs: core.config.deliveryTimeoutMs,
        concurrency: core.config.deliveryConcurrency,
        maxInFlight: Math.min(DEFAULT_DELIVERY_OPTIONS.maxInFlight, connectionLimit("delivery")),
        connectionsPerReceiver: connectionsPerReceiver(core.config),
        retentionMs: retentionMsOf(core.config),
        takeoverWaitMs:
          core.config.kafka === null ? 0 : core.config.deliveryTimeoutMs + LATE_END_MS,
      }),
    ),
  );
}

/** Returns the part that a consumer of the log is, made anew for each start; its name is its group's for `/metrics`, too. */
function consumer(
  core: Core,
  name: string,
  make: (failed: (error: Error) => void) => Recorder | DelayForwarder | Delivery,
): Part {
  return {
    name,
    start: async (failed) => {
      const made = make(failed);
      await made.start();
      core.watchLag(name, () => made.lag());
      return made;
    },
  };
}

async function runRecorder(core: Core): Promise<void> {
  const { clock, logger, supervisor, log } = core;
  const store = makeEventStoreWriter(requireEventStore(core).writes);
  const metrics = makeRecordMetrics(core.registry);
  const recorder = consumer(core, "recorder", (failed) =>
    makeRecorder({ failed, log, store, clock, logger, metrics }),
  );
  await supervisor.add(recorder, { tolerant: true });
}

function deliveryPorts(core: Core, appender: DeliveryPorts["appender"]): DeliveryPorts {
  const { cache, clock, logger, log, sender } = core;
  const store = makeConfigStore(core.configStore.database);
  return {
    log,
    appender,
    clock,
    random: Math.random,
    logger,
    metrics: makeDeliverMetrics(core.registry),
    destinationsOf: (endpointId) => cache.destinationsOf(endpointId),
    destination: (id) => cache.destination(id),
    onDestinationChanged: (listener) =>
      cache.onChange(({ destinationId }) => {
        if (destinationId !== null) listener(destinationId);
      }),
    disableDestination: async (id, receiverUrl, triedAtMs) => {
      const lookup = await cache.destination(id);
      if (lookup.kind !== "found") return;
      await disableDestination(
        { store, now: () => clock.now() },
        { orgId: lookup.value.orgId, id, receiverUrl, triedAtMs },
        `410 Gone from ${receiverUrl}`,
      );
    },
    planFanout,
    send: (request, signal, onSent) => sender.send(request, signal, onSent),
    signDelivery,
  };
}
