// Checks that what compose, Prometheus, nginx and Grafana say about each other is true.
import { existsSync } from "node:fs";
import { join, normalize } from "node:path";
import { readText } from "./files.js";

const FILE = "deploy/compose.yaml";

export function checkCompose({ root, yamlFiles, report }) {
  const [compose] = yamlFiles.get(FILE) ?? [];
  if (!report.expect(compose?.services, FILE, "has no services")) return { services: {} };
  const { services, volumes = {} } = compose;
  for (const [name, service] of Object.entries(services)) {
    const file = `${FILE} ${name}`;
    report.expect(service.image ?? service.build, file, "has neither image nor build");
    report.expect(
      /:[^:/]*\d/.test(service.image ?? ":1") || service.build,
      file,
      `image ${service.image} has no version`,
    );
    if (service.build !== undefined) {
      const dockerfile = normalize(join("deploy", service.build.context, service.build.dockerfile));
      report.expect(existsSync(join(root, dockerfile)), file, `${dockerfile} does not exist`);
      report.expect(service.read_only === true, file, "read_only must be true");
    }
    checkDependencies({ service, services, file, report });
    for (const volume of service.volumes ?? [])
      checkVolume({ root, volume, volumes, file, report });
    if (service.image?.includes("kafka")) checkKafkaLogDirs({ service, file, report });
  }
  checkScrapeTargets({ services, yamlFiles, report });
  checkProxy({ root, services, report });
  return compose;
}

function checkDependencies({ service, services, file, report }) {
  const needs = Array.isArray(service.depends_on)
    ? Object.fromEntries(service.depends_on.map((name) => [name, { condition: "service_started" }]))
    : (service.depends_on ?? {});
  for (const [name, { condition }] of Object.entries(needs)) {
    if (!report.expect(services[name], file, `depends on ${name}, which does not exist`)) continue;
    if (condition === "service_healthy")
      report.expect(
        services[name].healthcheck ?? services[name].build,
        file,
        `waits for the health of ${name}, which has no health check`,
      );
    if (condition === "service_completed_successfully")
      report.expect(
        services[name].restart === "no",
        file,
        `waits for the end of ${name}, which is restarted`,
      );
  }
}

function checkVolume({ root, volume, volumes, file, report }) {
  const [source] = volume.split(":");
  if (source.startsWith(".")) {
    const path = normalize(join("deploy", source));
    report.expect(existsSync(join(root, path)), file, `mounts ${path}, which does not exist`);
  } else report.expect(source in volumes, file, `the volume ${source} is not declared`);
}

/** Checks that Kafka's log is on a volume: elsewhere it would be lost with its container. */
function checkKafkaLogDirs({ service, file, report }) {
  const mounted = (service.volumes ?? []).map((volume) => volume.split(":")[1]);
  const dirs = service.environment?.KAFKA_LOG_DIRS?.split(",") ?? [];
  report.expect(
    dirs.length > 0 && dirs.every((dir) => mounted.includes(dir)),
    file,
    `KAFKA_LOG_DIRS must be where a volume is mounted: ${mounted.join(", ")}`,
  );
}

/** Checks that every relay container is scraped; its operations port is 9090. */
function checkScrapeTargets({ services, yamlFiles, report }) {
  const file = "deploy/prometheus/prometheus.yml";
  const [config] = yamlFiles.get(file) ?? [];
  const targets = (config?.scrape_configs ?? []).flatMap(({ static_configs = [] }) =>
    static_configs.flatMap((entry) => entry.targets),
  );
  for (const target of targets) {
    const [host, port] = target.split(":");
    report.expect(services[host], file, `scrapes ${host}, which is no service of compose`);
    report.expect(
      services[host]?.build === undefined || port === "9090",
      file,
      `${target}: the operations port is 9090`,
    );
  }
  for (const [name, service] of Object.entries(services))
    if (service.build !== undefined && service.command?.[0] !== "migrate")
      report.expect(targets.includes(`${name}:9090`), file, `does not scrape ${name}:9090`);
}

function checkProxy({ root, services, report }) {
  const file = "deploy/nginx.conf";
  const text = readText(root, file);
  const balance = (text.match(/\{/g) ?? []).length - (text.match(/\}/g) ?? []).length;
  report.expect(balance === 0, file, "braces do not match");
  const upstreams = [...text.matchAll(/^\s*server ([\w-]+):(\d+)[^{;\n]*;/gm)];
  for (const [, host, port] of upstreams)
    report.expect(
      services[host]?.environment?.RELAY_ROLES?.includes("ingest") && port === "8081",
      file,
      `${host}:${port} is no ingest of compose`,
    );
  for (const [name, service] of Object.entries(services))
    if (service.environment?.RELAY_ROLES === "ingest")
      report.expect(
        upstreams.some(([, host]) => host === name),
        file,
        `does not pass on to ${name}`,
      );
  for (const setting of ["underscores_in_headers on", "ignore_invalid_headers off"])
    report.expect(text.includes(`${setting};`), file, `must say ${setting}: headers are dropped`);
  report.expect(
    upstreams.every(([server]) => server.includes("max_fails=0")),
    file,
    "a server without max_fails=0 is left out for all when it fails one webhook",
  );
}
