import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { registerAppMetrics } from "../../src/adapters/prometheus/app-metrics.ts";
import { makeLagWatch } from "../../src/app/lag-watch.ts";

it("a group whose lag cannot be read, or that lost a topic, shows no lag instead of its last one", async () => {
  const registry = new Registry();
  const lags = makeLagWatch();
  registerAppMetrics(registry, {
    parts: () => [],
    lags: lags.read,
    isConfigPushed: () => true,
  });
  const shown = async () =>
    (await registry.metrics()).split("\n").filter((line) => line.startsWith("relay_log_lag"));
  let delivery: ReadonlyMap<string, number> | Error = new Map([
    ["events", 7],
    ["tasks", 3],
  ]);
  lags.watch("delivery", async () => {
    if (delivery instanceof Error) throw delivery;
    return delivery;
  });
  lags.watch("recorder", async () => new Map([["events", 1]]));
  expect(await shown()).toEqual([
    'relay_log_lag_records{group="delivery",topic="events"} 7',
    'relay_log_lag_records{group="delivery",topic="tasks"} 3',
    'relay_log_lag_records{group="recorder",topic="events"} 1',
  ]);
  delivery = new Map([["tasks", 2]]);
  expect(await shown()).toEqual([
    'relay_log_lag_records{group="delivery",topic="tasks"} 2',
    'relay_log_lag_records{group="recorder",topic="events"} 1',
  ]);
  delivery = new Error("the group is rebalancing");
  expect(await shown()).toEqual(['relay_log_lag_records{group="recorder",topic="events"} 1']);
});

it("brokers that hang do not keep the other metrics from being scraped", async () => {
  const lags = makeLagWatch(50);
  lags.watch("delivery", () => new Promise(() => {}));
  lags.watch("recorder", async () => new Map([["events", 1]]));
  expect(await lags.read()).toEqual([{ group: "recorder", topic: "events", records: 1 }]);
});
