// Reads what these files use of a kustomization: resources, secretGenerator, JSON patches.
import { existsSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { parse } from "yaml";

/** Returns the objects of the kustomization in `folder`, and reports references to what does not exist. */
export function buildKustomization({ root, folder, yamlFiles, report }) {
  const path = join(folder, "kustomization.yaml");
  const [kustomization] = yamlFiles.get(path) ?? [];
  if (kustomization === undefined) {
    report.fail(path, "is missing or empty");
    return [];
  }
  const objects = [];
  for (const resource of kustomization.resources ?? []) {
    const target = normalize(join(folder, resource));
    if (!report.expect(existsSync(join(root, target)), path, `resource ${resource} does not exist`))
      continue;
    objects.push(
      ...(statSync(join(root, target)).isDirectory()
        ? buildKustomization({ root, folder: target, yamlFiles, report })
        : structuredClone(yamlFiles.get(target) ?? [])),
    );
  }
  for (const { name, literals } of kustomization.secretGenerator ?? [])
    objects.push({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name },
      stringData: fromLiterals(literals),
    });
  for (const { target, patch } of kustomization.patches ?? [])
    applyPatch({ objects, target, patch, path, report });
  return objects;
}

/** Lists the folders below deploy/kubernetes that hold a kustomization. */
export function findKustomizations(yamlFiles) {
  return [...yamlFiles.keys()]
    .filter((path) => path.endsWith("/kustomization.yaml"))
    .map((path) => dirname(path));
}

function fromLiterals(literals = []) {
  return Object.fromEntries(
    literals.map((literal) => [
      literal.slice(0, literal.indexOf("=")),
      literal.slice(literal.indexOf("=") + 1),
    ]),
  );
}

function applyPatch({ objects, target, patch, path, report }) {
  const object = objects.find(
    ({ kind, metadata }) => kind === target.kind && metadata?.name === target.name,
  );
  const name = `${target.kind}/${target.name}`;
  if (!report.expect(object, path, `patches ${name}, which does not exist`)) return;
  for (const { op, path: pointer, value } of parse(patch)) {
    const keys = pointer
      .slice(1)
      .split("/")
      .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = keys.pop();
    const parent = keys.reduce((at, key) => at?.[key], object);
    const fits = parent !== undefined && (op === "add" || parent[last] !== undefined);
    if (!report.expect(fits, path, `${op} ${pointer}: ${name} has no such place`)) continue;
    if (op === "remove") delete parent[last];
    else if (Array.isArray(parent))
      parent.splice(last === "-" ? parent.length : Number(last), op === "add" ? 0 : 1, value);
    else parent[last] = value;
  }
}
