import { makeEventStoreWriter } from "../adapters/clickhouse/insert.ts";
import { makeRecordMetrics } from "../adapters/prometheus/record-metrics.ts";
import { makeRecorder } from "../pipeline/record/make-recorder.ts";
import type { Core } from "./core.ts";

/** The delivery role: records the log into the event store, fans events out and delivers them. */
export async function runDelivery(core: Core): Promise<void> {
  const { clock, logger, supervisor, log } = core;
  const recordPorts = {
    log,
    store: makeEventStoreWriter(await core.eventStore()),
    clock,
    logger,
    metrics: makeRecordMetrics(core.registry),
  };
  await supervisor.add(
    {
      name: "recorder",
      start: async () => {
        const recorder = makeRecorder(recordPorts);
        core.watchLag("recorder", () => recorder.lag());
        await recorder.start();
        return recorder;
      },
    },
    { tolerant: true },
  );
}
