// Structural checks of Kubernetes objects: the fields that they need to work and to be safe.
import { spawnSync } from "node:child_process";
import { parse } from "yaml";
import { readText } from "./files.js";
import { buildKustomization, findKustomizations } from "./kustomize.js";

const API_VERSIONS = {
  ConfigMap: "v1",
  CronJob: "batch/v1",
  Deployment: "apps/v1",
  HorizontalPodAutoscaler: "autoscaling/v2",
  Ingress: "networking.k8s.io/v1",
  Job: "batch/v1",
  Namespace: "v1",
  NetworkPolicy: "networking.k8s.io/v1",
  PodDisruptionBudget: "policy/v1",
  Secret: "v1",
  Service: "v1",
};
const QUANTITY = /^\d+(\.\d+)?(m|Ki|Mi|Gi|k|M|G)?$/;
const DNS_NAME = /^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/;

/** @returns the objects of every kustomization, by folder */
export function checkKubernetes({ root, yamlFiles, report, useTools }) {
  const built = new Map();
  for (const folder of findKustomizations(yamlFiles)) {
    const objects = buildKustomization({ root, folder, yamlFiles, report });
    built.set(folder, objects);
    checkObjects(folder, objects, report);
    if (useTools) renderWithKubectl(root, folder, report);
  }
  checkAdapterRules(root, report);
  return built;
}

/** Checks that adapter rules map a namespace label: the autoscaler always queries by namespace, and fails without one. */
function checkAdapterRules(root, report) {
  const file = "deploy/README.md";
  const block = /```yaml\n(externalRules:[\s\S]*?)```/.exec(readText(root, file))?.[1];
  if (!report.expect(block, file, "has no externalRules for prometheus-adapter")) return;
  for (const { seriesQuery, resources } of parse(block).externalRules)
    report.expect(
      resources?.overrides?.namespace?.resource === "namespace",
      file,
      `the adapter's rule for ${seriesQuery} names no label for the namespace`,
    );
}

function checkObjects(folder, objects, report) {
  const seen = new Set();
  for (const object of objects) {
    const { apiVersion, kind, metadata } = object;
    const file = `${folder} ${kind}/${metadata?.name}`;
    report.expect(
      API_VERSIONS[kind] === apiVersion,
      file,
      `apiVersion of ${kind} must be ${API_VERSIONS[kind] ?? "a known kind's"}`,
    );
    report.expect(DNS_NAME.test(metadata?.name ?? ""), file, "metadata.name must be a DNS name");
    report.expect(!seen.has(`${kind}/${metadata?.name}`), file, "is there twice");
    seen.add(`${kind}/${metadata?.name}`);
    const check = CHECKS[kind];
    if (check !== undefined) check({ object, objects, file, report });
  }
}

const CHECKS = {
  Deployment({ object, objects, file, report }) {
    const { selector, template } = object.spec;
    report.expect(
      hasLabels(template.metadata?.labels, selector?.matchLabels),
      file,
      "selector does not match the pods' labels",
    );
    checkPod(template.spec, objects, file, report);
    for (const container of template.spec.containers)
      for (const probe of ["readinessProbe", "livenessProbe"]) {
        const port = container[probe]?.httpGet?.port;
        report.expect(
          container.ports?.some(({ name }) => name === port),
          file,
          `${probe} must ask a port of the container`,
        );
      }
    const { terminationGracePeriodSeconds } = template.spec;
    report.expect(
      terminationGracePeriodSeconds > 30,
      file,
      "terminationGracePeriodSeconds must exceed the 29 s that a stop may take",
    );
  },
  Job({ object, objects, file, report }) {
    const pod = object.spec.template.spec;
    report.expect(
      ["OnFailure", "Never"].includes(pod.restartPolicy),
      file,
      "restartPolicy must be OnFailure or Never",
    );
    checkPod(pod, objects, file, report);
  },
  Service({ object, objects, file, report }) {
    const { selector, ports } = object.spec;
    const pods = ofKind(objects, "Deployment").filter(({ spec }) =>
      hasLabels(spec.template.metadata.labels, selector),
    );
    report.expect(pods.length > 0, file, "selects no pods");
    const names = new Set(
      pods
        .flatMap(({ spec }) => spec.template.spec.containers.flatMap((c) => c.ports ?? []))
        .map(({ name }) => name),
    );
    for (const { port, targetPort } of ports ?? [])
      report.expect(
        Number.isInteger(port) && names.has(targetPort),
        file,
        `port ${port} leads to no container port ${targetPort}`,
      );
  },
  HorizontalPodAutoscaler({ object, objects, file, report }) {
    const { scaleTargetRef, minReplicas, maxReplicas, metrics } = object.spec;
    const target = ofKind(objects, scaleTargetRef.kind).find(
      ({ metadata }) => metadata.name === scaleTargetRef.name,
    );
    report.expect(target, file, `scales ${scaleTargetRef.name}, which does not exist`);
    report.expect(
      target?.spec.replicas === undefined,
      file,
      "its target sets replicas too: every apply would undo the scaling",
    );
    report.expect(minReplicas <= maxReplicas, file, "minReplicas must not exceed maxReplicas");
    report.expect(metrics?.length > 0, file, "has no metrics");
  },
  PodDisruptionBudget({ object, objects, file, report }) {
    const labels = object.spec.selector?.matchLabels;
    report.expect(
      ofKind(objects, "Deployment").some(({ spec }) =>
        hasLabels(spec.template.metadata.labels, labels),
      ),
      file,
      "selects no pods",
    );
    report.expect(
      (object.spec.maxUnavailable === undefined) !== (object.spec.minAvailable === undefined),
      file,
      "needs maxUnavailable or minAvailable",
    );
  },
  NetworkPolicy({ object, objects, file, report }) {
    const labels = object.spec.podSelector?.matchLabels ?? {};
    report.expect(
      ofKind(objects, "Deployment").some(({ spec }) =>
        hasLabels(spec.template.metadata.labels, labels),
      ),
      file,
      "selects no pods",
    );
    const blocks = (object.spec.egress ?? []).flatMap(({ to = [] }) =>
      to.flatMap(({ ipBlock }) => (ipBlock ? [ipBlock] : [])),
    );
    for (const { cidr, except = [] } of blocks.filter((block) => block.cidr === "0.0.0.0/0"))
      for (const range of ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"])
        report.expect(except.includes(range), file, `egress to ${cidr} must except ${range}`);
  },
  Ingress({ object, objects, file, report }) {
    for (const { http } of object.spec.rules)
      for (const { backend } of http.paths) {
        const service = ofKind(objects, "Service").find(
          ({ metadata }) => metadata.name === backend.service.name,
        );
        report.expect(
          service?.spec.ports.some(
            (p) => p.name === backend.service.port.name || p.port === backend.service.port.number,
          ),
          file,
          `backend ${backend.service.name} has no such port`,
        );
      }
  },
};

function checkPod(pod, objects, file, report) {
  report.expect(pod.enableServiceLinks === false, file, "enableServiceLinks must be false");
  report.expect(
    pod.automountServiceAccountToken === false,
    file,
    "automountServiceAccountToken must be false",
  );
  report.expect(pod.securityContext?.runAsNonRoot === true, file, "runAsNonRoot must be true");
  report.expect(
    pod.securityContext?.seccompProfile?.type === "RuntimeDefault",
    file,
    "seccompProfile must be RuntimeDefault",
  );
  report.expect(pod.containers?.length > 0, file, "has no containers");
  for (const container of pod.containers ?? []) {
    const { image, resources, securityContext, envFrom = [] } = container;
    report.expect(typeof image === "string", file, "a container has no image");
    report.expect(
      !container.args?.includes("ingest") ||
        resources?.limits?.cpu !== undefined ||
        container.env?.some(({ name }) => name === "RELAY_VERIFY_THREADS"),
      file,
      "RELAY_VERIFY_THREADS must be set where CPU has no limit: there is a thread for each core of the node",
    );
    report.expect(
      securityContext?.readOnlyRootFilesystem === true,
      file,
      "readOnlyRootFilesystem must be true",
    );
    report.expect(
      securityContext?.allowPrivilegeEscalation === false,
      file,
      "allowPrivilegeEscalation must be false",
    );
    report.expect(
      securityContext?.capabilities?.drop?.includes("ALL"),
      file,
      "capabilities must drop ALL",
    );
    for (const [what, value] of [
      ["requests.cpu", resources?.requests?.cpu],
      ["requests.memory", resources?.requests?.memory],
      ["limits.memory", resources?.limits?.memory],
    ])
      report.expect(
        QUANTITY.test(String(value)),
        file,
        `resources.${what} is missing or no quantity`,
      );
    for (const { configMapRef } of envFrom)
      if (configMapRef !== undefined)
        report.expect(
          ofKind(objects, "ConfigMap").some(({ metadata }) => metadata.name === configMapRef.name),
          file,
          `no ConfigMap ${configMapRef.name}`,
        );
  }
}

function ofKind(objects, kind) {
  return objects.filter((object) => object.kind === kind);
}

function hasLabels(labels, wanted) {
  return Object.entries(wanted ?? {}).every(([name, value]) => labels?.[name] === value);
}

function renderWithKubectl(root, folder, report) {
  const { error, status, stderr } = spawnSync("kubectl", ["kustomize", folder], {
    cwd: root,
    encoding: "utf8",
  });
  if (error !== undefined)
    return report.note("kubectl is not installed: kustomize did not render the manifests");
  report.expect(status === 0, folder, stderr.trim());
}
