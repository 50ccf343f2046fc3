// Checks the variables that the deployment files pass to the relay: known names, and values that the program accepts.
import { tsImport } from "tsx/esm/api";
import { listFiles, readText } from "./files.js";

/** Not the relay's own, but useful to a Node process in a container. */
const FOREIGN_NAMES = ["NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "TZ", "UV_THREADPOOL_SIZE"];

export async function loadRelayConfig() {
  const { loadConfig } = await tsImport("../../src/config/load-config.ts", import.meta.url);
  const { VARIABLE_NAMES } = await tsImport("../../src/config/variables.ts", import.meta.url);
  return { loadConfig, names: new Set([...VARIABLE_NAMES, ...FOREIGN_NAMES]) };
}

/** @param environments the variables by file */
export function checkEnvironments({ environments, relay, report }) {
  for (const { file, env } of environments) {
    for (const name of Object.keys(env))
      report.expect(relay.names.has(name), file, `the relay has no variable ${name}`);
    try {
      relay.loadConfig(env);
    } catch (error) {
      report.fail(file, error.message);
    }
  }
}

/** Reads config/*.env as docker and `node --env-file` do: NAME=value lines and # comments. */
export function readEnvFiles(root, report) {
  return listFiles(root, "config", [".env"]).map((file) => {
    const env = {};
    for (const line of readText(root, file).split("\n")) {
      if (line === "" || line.startsWith("#")) continue;
      const match = /^([A-Z][A-Z0-9_]*)=(.*)$/.exec(line);
      if (!report.expect(match, file, `cannot read the line ${line}`)) continue;
      report.expect(!(match[1] in env), file, `${match[1]} is set twice`);
      report.expect(
        !/^["']|\s#|\s$/.test(match[2]),
        file,
        `${match[1]}: quotes, spaces and comments behind a value are read differently by docker`,
      );
      env[match[1]] = match[2];
    }
    return { file, env };
  });
}

/** Reads the environment of every service that runs the relay's image; `${NAME:-default}` becomes the default. */
export function readComposeEnvironments(file, compose) {
  return Object.entries(compose.services ?? {})
    .filter(([, service]) => service.build !== undefined)
    .map(([name, service]) => ({
      file: `${file} ${name}`,
      env: Object.fromEntries(
        Object.entries(service.environment ?? {}).map(([key, value]) => [
          key,
          String(value).replaceAll(/\$\{\w+:-([^}]*)\}/g, "$1"),
        ]),
      ),
    }));
}

/** Reads the environment of every workload whose ConfigMap and Secret are both known, with the roles from its arguments. */
export function readKubernetesEnvironments(folder, objects) {
  const find = (kind, ref) =>
    ref && objects.find((object) => object.kind === kind && object.metadata.name === ref.name);
  return objects
    .filter(({ kind }) => kind === "Deployment" || kind === "Job")
    .flatMap(({ kind, metadata, spec }) =>
      spec.template.spec.containers.flatMap((container) => {
        const sources = (container.envFrom ?? []).map(
          ({ configMapRef, secretRef }) =>
            find("ConfigMap", configMapRef) ?? find("Secret", secretRef),
        );
        if (sources.includes(undefined)) return [];
        const env = Object.assign({}, ...sources.map((source) => source.data ?? source.stringData));
        for (const { name, value } of container.env ?? []) env[name] = value;
        const roles = container.args?.[container.args.indexOf("--roles") + 1];
        if (container.args?.includes("--roles")) env.RELAY_ROLES = roles;
        return [{ file: `${folder} ${kind}/${metadata.name}`, env }];
      }),
    );
}
