// The program's metrics: those defined in src/adapters/prometheus and the process metrics of prom-client.
import { collectDefaultMetrics, Registry } from "prom-client";
import { listFiles, readText } from "./files.js";

const DECLARATION = /new (Counter|Gauge|Histogram)\(\{([\s\S]*?)\n {2,4}\}\)/g;
/** Labels that a scrape adds to every series. */
const TARGET_LABELS = ["instance", "job", "role", "pod", "namespace"];
/** Series that Prometheus itself adds for every target. */
const SCRAPE_METRICS = ["up", "scrape_duration_seconds"];

/** Maps the name of each series, as PromQL knows it, to its labels. */
export function readKnownMetrics(root) {
  const series = new Map(SCRAPE_METRICS.map((name) => [name, new Set(TARGET_LABELS)]));
  const add = (type, name, labels) => {
    const all = new Set([...labels, ...TARGET_LABELS]);
    if (type !== "histogram") return void series.set(name, all);
    series.set(`${name}_bucket`, new Set([...all, "le"]));
    series.set(`${name}_sum`, all);
    series.set(`${name}_count`, all);
  };
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const metric of registry.getMetricsAsArray())
    add(metric.type, metric.name, metric.labelNames ?? []);
  let own = 0;
  for (const path of listFiles(root, "src/adapters/prometheus", [".ts"])) {
    const source = readText(root, path);
    const shared = labelsIn(/const labelNames = \[([^\]]*)\]/.exec(source)?.[1] ?? "");
    for (const [, type, body] of source.matchAll(DECLARATION)) {
      const name = /name: "([^"]+)"/.exec(body)?.[1];
      if (name === undefined) continue;
      const given = /labelNames: \[([^\]]*)\]/.exec(body)?.[1];
      const labels =
        given === undefined ? (/labelNames,/.test(body) ? shared : []) : labelsIn(given);
      add(type.toLowerCase(), name, labels);
      own += 1;
    }
    // A declaration that the pattern misses would make every use of it look unknown.
    own -= [...source.matchAll(/name: "relay_/g)].length;
  }
  if (own !== 0) throw new Error("src/adapters/prometheus: not every declaration was understood");
  return series;
}

function labelsIn(text) {
  return [...text.matchAll(/"([^"]+)"/g)].map((match) => match[1]);
}
