// Checks deploy/ and config/ as far as possible without a cluster, Docker or a network:
// node scripts/check-deploy.js [--root DIR] [--no-tools] [--image] [--write-cluster-ddl]
// promtool and kubectl, where installed, read the files too (not with --no-tools). --image also builds what the
// Dockerfile builds, in a temporary directory, and starts it, which takes minutes and needs the package registry.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { checkClusterDdl } from "./check-deploy/cluster-ddl.js";
import { checkCompose } from "./check-deploy/compose.js";
import { checkAlerts, checkDashboards } from "./check-deploy/dashboards.js";
import { checkDockerfile } from "./check-deploy/dockerfile.js";
import {
  checkEnvironments,
  loadRelayConfig,
  readComposeEnvironments,
  readEnvFiles,
  readKubernetesEnvironments,
} from "./check-deploy/environment.js";
import { makeReport, parseYamlFiles } from "./check-deploy/files.js";
import { checkImage } from "./check-deploy/image.js";
import { readKnownMetrics } from "./check-deploy/known-metrics.js";
import { checkKubernetes } from "./check-deploy/kubernetes.js";
import {
  checkExpression,
  checkWithPromtool,
  collectExpressions,
  readSourceWords,
} from "./check-deploy/promql.js";

const { values } = parseArgs({
  options: {
    root: { type: "string", default: dirname(dirname(fileURLToPath(import.meta.url))) },
    "no-tools": { type: "boolean", default: false },
    "write-cluster-ddl": { type: "boolean", default: false },
    image: { type: "boolean", default: false },
  },
});
const { root } = values;
const useTools = !values["no-tools"];
const report = makeReport();

const yamlFiles = parseYamlFiles(root, report);
report.expect(
  yamlFiles.size > 0 && existsSync(join(root, "src")),
  root,
  "is not a tree of the relay",
);
checkDockerfile({ root, report });
const compose = checkCompose({ root, yamlFiles, report });
const built = checkKubernetes({ root, yamlFiles, report, useTools });

const environments = [
  ...readEnvFiles(root, report),
  ...readComposeEnvironments("deploy/compose.yaml", compose),
  ...[...built].flatMap(([folder, objects]) => readKubernetesEnvironments(folder, objects)),
];
report.expect(environments.length > 0, root, "gives the relay no variables anywhere");
checkEnvironments({ environments, relay: await loadRelayConfig(), report });

await checkClusterDdl({ root, report, write: values["write-cluster-ddl"] });
const alerts = checkAlerts({ root, yamlFiles, report });
const dashboards = checkDashboards({ root, yamlFiles, report });
const series = readKnownMetrics(root);
const words = readSourceWords(root);
const expressions = collectExpressions(alerts, dashboards);
for (const { file, expression } of expressions)
  checkExpression({ expression, file, series, words, report });
if (useTools) checkWithPromtool({ root, expressions, report });
if (values.image) await checkImage({ root, report });

for (const note of report.notes) console.log(note);
for (const problem of report.problems) console.error(problem);
console.log(
  `deploy: ${yamlFiles.size} YAML files, ${[...built.values()].flat().length} Kubernetes objects, ${environments.length} environments, ${expressions.length} expressions, ${report.problems.length} problems`,
);
if (report.problems.length > 0) process.exitCode = 1;
