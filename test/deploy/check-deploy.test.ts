import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const CHECKED = ["deploy", "config", ".dockerignore"];
const LINKED = ["src", "bin", "scripts", "node_modules", "package.json", "package-lock.json"];
const LINKED_TOO = [".npmrc", "tsconfig.json", "tsconfig.build.json"];

let trees: string;
let made = 0;
beforeAll(async () => {
  trees = await mkdtemp(join(tmpdir(), "relay-check-deploy-"));
});
afterAll(() => rm(trees, { recursive: true, force: true }));

/** Makes a tree like this one, whose deployment files may be broken. */
async function makeTree(): Promise<string> {
  made += 1;
  const tree = join(trees, String(made));
  for (const path of CHECKED) await cp(join(root, path), join(tree, path), { recursive: true });
  for (const path of [...LINKED, ...LINKED_TOO]) await symlink(join(root, path), join(tree, path));
  return tree;
}

function check(
  tree: string,
  ...flags: readonly string[]
): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(root, "scripts/check-deploy.js"), "--root", tree, ...flags],
      { env: { ...process.env, NODE_OPTIONS: "" } },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

interface Break {
  readonly rule: string;
  readonly file: string;
  readonly replace: string | RegExp;
  readonly by: string;
  readonly says: string;
  /** Set for a fault that hides others, and so needs a tree of its own. */
  readonly alone?: true;
}

const BREAKS: readonly Break[] = [
  {
    rule: "YAML that does not parse",
    file: "deploy/prometheus/prometheus.yml",
    replace: "rule_files: [alerts.yml]",
    by: "rule_files: [alerts.yml",
    says: "deploy/prometheus/prometheus.yml: ",
    alone: true,
  },
  {
    rule: "a key that stands twice",
    file: "deploy/kubernetes/base/config.yaml",
    replace: "  LOG_LEVEL: info",
    by: "  LOG_LEVEL: info\n  LOG_LEVEL: warn",
    says: "Map keys must be unique",
    alone: true,
  },
  {
    rule: "a resource that is not there",
    file: "deploy/kubernetes/base/kustomization.yaml",
    replace: "- api.yaml",
    by: "- apis.yaml",
    says: "resource apis.yaml does not exist",
    alone: true,
  },
  {
    rule: "a patch of what is not there",
    file: "deploy/kubernetes/overlays/example/kustomization.yaml",
    replace: "/data/RELAY_PUBLIC_INGEST_URL",
    by: "/data/RELAY_PUBLIC_URL",
    says: "ConfigMap/relay-config has no such place",
  },
  {
    rule: "a patch of an unknown object",
    file: "deploy/kubernetes/overlays/example/kustomization.yaml",
    replace: "kind: ConfigMap, name: relay-config",
    by: "kind: ConfigMap, name: relay",
    says: "patches ConfigMap/relay, which does not exist",
    alone: true,
  },
  {
    rule: "a wrong apiVersion",
    file: "deploy/kubernetes/base/migrate.yaml",
    replace: "batch/v1",
    by: "batch/v1beta1",
    says: "apiVersion of Job must be batch/v1",
  },
  {
    rule: "service links",
    file: "deploy/kubernetes/base/ingest.yaml",
    replace: "enableServiceLinks: false",
    by: "enableServiceLinks: true",
    says: "enableServiceLinks must be false",
  },
  {
    rule: "a writable root file system",
    file: "deploy/kubernetes/base/delivery.yaml",
    replace: "readOnlyRootFilesystem: true",
    by: "readOnlyRootFilesystem: false",
    says: "readOnlyRootFilesystem must be true",
  },
  {
    rule: "a probe of a port that is not there",
    file: "deploy/kubernetes/base/api.yaml",
    replace: "path: /readyz, port: ops",
    by: "path: /readyz, port: metrics",
    says: "readinessProbe must ask a port of the container",
  },
  {
    rule: "a verification thread for each core of the node",
    file: "deploy/kubernetes/base/ingest.yaml",
    replace: "name: RELAY_VERIFY_THREADS",
    by: "name: RELAY_CONFIG_TTL_MS",
    says: "RELAY_VERIFY_THREADS must be set where CPU has no limit",
  },
  {
    rule: "missing memory limits",
    file: "deploy/kubernetes/base/api.yaml",
    replace: "limits: { memory: 1536Mi }",
    by: "limits: {}",
    says: "resources.limits.memory is missing or no quantity",
  },
  {
    rule: "a grace shorter than a stop",
    file: "deploy/kubernetes/base/delivery.yaml",
    replace: "terminationGracePeriodSeconds: 40",
    by: "terminationGracePeriodSeconds: 10",
    says: "terminationGracePeriodSeconds must exceed",
  },
  {
    rule: "a service without pods",
    file: "deploy/kubernetes/base/ingest.yaml",
    replace: /(kind: Service[\s\S]*component: )ingest/,
    by: "$1ingress",
    says: "Service/relay-ingest: selects no pods",
  },
  {
    rule: "replicas beside an autoscaler",
    file: "deploy/kubernetes/base/delivery.yaml",
    replace: "  strategy:",
    by: "  replicas: 2\n  strategy:",
    says: "every apply would undo the scaling",
  },
  {
    rule: "an autoscaler of nothing",
    file: "deploy/kubernetes/base/autoscaling.yaml",
    replace: "kind: Deployment, name: relay-ingest",
    by: "kind: Deployment, name: relay-in",
    says: "scales relay-in, which does not exist",
  },
  {
    rule: "a rule that the adapter cannot ask by",
    file: "deploy/README.md",
    replace: /\n\s*resources: \{ overrides[^\n]*/,
    by: "",
    says: "names no label for the namespace",
  },
  {
    rule: "a disruption budget of nothing",
    file: "deploy/kubernetes/base/disruption.yaml",
    replace: "component: api",
    by: "component: apis",
    says: "PodDisruptionBudget/relay-api: selects no pods",
  },
  {
    rule: "deliveries into private networks",
    file: "deploy/kubernetes/base/network.yaml",
    replace: /\s10\.0\.0\.0\/8,/,
    by: "",
    says: "egress to 0.0.0.0/0 must except 10.0.0.0/8",
  },
  {
    rule: "an ingress to no port",
    file: "deploy/kubernetes/overlays/example/ingress.yaml",
    replace: "name: relay-api, port: { name: http }",
    by: "name: relay-api, port: { name: web }",
    says: "backend relay-api has no such port",
  },
  {
    rule: "an unknown variable in a ConfigMap",
    file: "deploy/kubernetes/base/config.yaml",
    replace: "KAFKA_BROKERS:",
    by: "KAFKA_BROKER:",
    says: "the relay has no variable KAFKA_BROKER",
  },
  {
    rule: "a wrong value in compose",
    file: "deploy/compose.yaml",
    replace: "RELAY_ROLES: api",
    by: "RELAY_ROLES: apis",
    says: "deploy/compose.yaml api: RELAY_ROLES",
  },
  {
    rule: "an unknown variable in an example",
    file: "config/cluster-ingest.env",
    replace: "RELAY_TRUSTED_PROXIES=",
    by: "RELAY_TRUSTED_PROXY=",
    says: "did you mean RELAY_TRUSTED_PROXIES?",
  },
  {
    rule: "a comment behind a value",
    file: "config/embedded.env",
    replace: "LOG_LEVEL=info",
    by: "LOG_LEVEL=info # or debug",
    says: "are read differently by docker",
  },
  {
    rule: "a dependency that is not there",
    file: "deploy/compose.yaml",
    replace: "depends_on: [prometheus]",
    by: "depends_on: [prometeus]",
    says: "depends on prometeus, which does not exist",
  },
  {
    rule: "a mount of what is not there",
    file: "deploy/compose.yaml",
    replace: "./nginx.conf:",
    by: "./proxy.conf:",
    says: "mounts deploy/proxy.conf, which does not exist",
  },
  {
    rule: "a log of Kafka beside its volume",
    file: "deploy/compose.yaml",
    replace: "KAFKA_LOG_DIRS: /var/lib/kafka/data",
    by: "KAFKA_LOG_DIRS: /tmp/kafka-logs",
    says: "kafka1: KAFKA_LOG_DIRS must be where a volume is mounted: /var/lib/kafka/data",
  },
  {
    rule: "a process that is not scraped",
    file: "deploy/prometheus/prometheus.yml",
    replace: ', "delivery2:9090"',
    by: "",
    says: "does not scrape delivery2:9090",
  },
  {
    rule: "an ingest that the proxy leaves out",
    file: "deploy/nginx.conf",
    replace: /\n\s*server ingest2:8081[^\n]*/,
    by: "",
    says: "does not pass on to ingest2",
  },
  {
    rule: "a proxy that drops headers by their names",
    file: "deploy/nginx.conf",
    replace: "underscores_in_headers on;",
    by: "",
    says: "must say underscores_in_headers on",
  },
  {
    rule: "an ingest that is left out for one webhook",
    file: "deploy/nginx.conf",
    replace: "ingest1:8081 max_fails=0",
    by: "ingest1:8081",
    says: "a server without max_fails=0",
  },
  {
    rule: "a copied path that is not there",
    file: "deploy/Dockerfile",
    replace: "COPY bin bin",
    by: "COPY binaries bin",
    says: "COPY binaries: does not exist",
  },
  {
    rule: "a copied path that is left out",
    file: ".dockerignore",
    replace: "dist",
    by: "dist\nscripts",
    says: "COPY scripts/build.js: .dockerignore leaves it out",
  },
  {
    rule: "a stage that is not there",
    file: "deploy/Dockerfile",
    replace: "--from=build",
    by: "--from=builder",
    says: "COPY --from=builder: no such stage before",
  },
  {
    rule: "a user that may be root",
    file: "deploy/Dockerfile",
    replace: "USER 1000:1000",
    by: "USER node",
    says: "USER must be a number",
  },
  {
    rule: "a metric that is not there",
    file: "deploy/prometheus/alerts.yml",
    replace: "relay_part_up == 0",
    by: "relay_parts_up == 0",
    says: "RelayPartDown: no metric relay_parts_up",
  },
  {
    rule: "a histogram without its suffix",
    file: "deploy/grafana/dashboards/relay.json",
    replace: "relay_delay_lateness_seconds_bucket",
    by: "relay_delay_lateness_seconds",
    says: "no metric relay_delay_lateness_seconds",
  },
  {
    rule: "a label that the metric does not have",
    file: "deploy/prometheus/alerts.yml",
    replace: '{group="recorder"}',
    by: '{queue="recorder"}',
    says: "relay_log_lag_records has no label queue",
  },
  {
    rule: "a value that the label never has",
    file: "deploy/prometheus/alerts.yml",
    replace: '{status="dead"}',
    by: '{status="abandoned"}',
    says: "no status is ever abandoned",
  },
  {
    rule: "grouping by a label that is not there",
    file: "deploy/prometheus/alerts.yml",
    replace: "sum by (code)",
    by: "sum by (reason)",
    says: "no metric here has the label reason",
  },
  {
    rule: "an alert without a line in the guide",
    file: "deploy/README.md",
    replace: "| `RelayPartDown` |",
    by: "| RelayPartDown |",
    says: "RelayPartDown: has no line in the table",
  },
  {
    rule: "a line in the guide without its alert",
    file: "deploy/README.md",
    replace: "| `RelayDelayLate` |",
    by: "| `RelayDelayLate` | | |\n| `RelayPartGone` |",
    says: "explains RelayPartGone, which is no alert",
  },
  {
    rule: "an alert that does not say what to do",
    file: "deploy/prometheus/alerts.yml",
    replace: /\n\s*description: "Look for part.failed[^\n]*/,
    by: "",
    says: "RelayPartRestarting: needs a summary, and a description",
  },
  {
    rule: "a data source that is not provisioned",
    file: "deploy/grafana/provisioning/datasources/prometheus.yaml",
    replace: "uid: prometheus",
    by: "uid: prom",
    says: "no data source prometheus is provisioned",
  },
  {
    rule: "a panel over another",
    file: "deploy/grafana/dashboards/relay.json",
    replace: /"x": 6,(\s*)"y": 6,/,
    by: '"x": 5,$1"y": 6,',
    says: "lies over another panel",
  },
  {
    rule: "tables of a cluster that differ from the schema",
    file: "deploy/clickhouse/cluster.sql",
    replace: "endpoint_id",
    by: "endpoint",
    says: "differs from the schema",
  },
];

describe("the check of deploy/ and config/", () => {
  test("finds nothing wrong with the files as they are, the tools that are installed included", async () => {
    const { code, output } = await check(await makeTree());
    expect(output).toContain("0 problems");
    expect(code).toBe(0);
  });

  test("refuses each broken rule of many at once", async () => {
    const broken = BREAKS.filter(({ alone }) => alone === undefined);
    const tree = await makeTree();
    for (const one of broken) await breakFile(tree, one);
    const { code, output } = await check(tree, "--no-tools");
    expect(broken.filter(({ says }) => !output.includes(says))).toEqual([]);
    expect(code).toBe(1);
  });

  test.each(BREAKS.filter(({ alone }) => alone === true))("refuses $rule", async (one) => {
    const tree = await makeTree();
    await breakFile(tree, one);
    const { code, output } = await check(tree, "--no-tools");
    expect(output).toContain(one.says);
    expect(code).toBe(1);
  });
});

async function breakFile(tree: string, { rule, file, replace, by }: Break): Promise<void> {
  const before = await readFile(join(tree, file), "utf8");
  const after = before.replace(replace, by);
  expect(after, rule).not.toBe(before);
  await writeFile(join(tree, file), after);
}
