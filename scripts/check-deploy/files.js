// What the other checks share: reading the tree and collecting its problems.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parseAllDocuments } from "yaml";

/** Lists files below `folder` whose names end in one of `endings`, sorted; all paths are relative to root. */
export function listFiles(root, folder, endings) {
  const start = join(root, folder);
  if (!existsSync(start)) return [];
  return readdirSync(start, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .toSorted();
}

export function readText(root, path) {
  return readFileSync(join(root, path), "utf8");
}

/** Makes a collector of problems and the files they are in. */
export function makeReport() {
  const problems = [];
  const notes = [];
  return {
    problems,
    notes,
    /** Reports `text` about `file` unless `condition` holds. @returns the condition */
    expect(condition, file, text) {
      if (!condition) problems.push(`${file}: ${text}`);
      return Boolean(condition);
    },
    fail: (file, text) => void problems.push(`${file}: ${text}`),
    note: (text) => void notes.push(text),
  };
}

/** Parses every YAML file under deploy/ (path → documents) and reports syntax errors, warnings and repeated keys. */
export function parseYamlFiles(root, report) {
  const parsed = new Map();
  for (const path of listFiles(root, "deploy", [".yaml", ".yml"])) {
    const documents = parseAllDocuments(readText(root, path), { merge: true, uniqueKeys: true });
    const wrong = documents.flatMap((document) => [...document.errors, ...document.warnings]);
    for (const error of wrong) report.fail(path, error.message.split("\n")[0]);
    parsed.set(
      path,
      wrong.length > 0 ? [] : documents.map((document) => document.toJS()).filter(Boolean),
    );
  }
  return parsed;
}
