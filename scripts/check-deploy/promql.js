// Checks expressions against the metrics that exist, and against promtool where it is installed.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { listFiles, readText } from "./files.js";

const KEYWORDS = new Set(
  "and or unless bool offset by without on ignoring group_left group_right inf nan".split(" "),
);
const LABEL_LIST = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;
const SELECTOR = /([a-zA-Z_:][\w:]*)?\s*\{([^}]*)\}/g;

/** Replaces a dashboard's variables with values to check the expression with. */
function fillVariables(expression) {
  return expression
    .replaceAll(/\$\{?__(rate_interval|interval|range)\}?/g, "5m")
    .replaceAll(/\$\{?\w+\}?/g, "x");
}

/** Checks metric names, their labels and the values compared with those labels. `words` is all source text. */
export function checkExpression({ expression, file, series, words, report }) {
  const text = fillVariables(expression);
  const used = new Set();
  for (const [, list] of text.matchAll(LABEL_LIST))
    for (const label of list.split(",")) used.add(label.trim());
  for (const [, name, matchers] of text.matchAll(SELECTOR)) {
    for (const [, label, , value] of matchers.matchAll(/(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"/g)) {
      if (name !== undefined && series.has(name))
        report.expect(series.get(name).has(label), file, `${name} has no label ${label}`);
      if (["instance", "job", "role", "pod", "namespace"].includes(label)) continue;
      for (const word of value.split("|"))
        report.expect(
          !/^\w*$/.test(word) || words.includes(`"${word}"`),
          file,
          `${name}: no ${label} is ever ${word}`,
        );
    }
  }
  const bare = text
    .replaceAll(LABEL_LIST, " ")
    .replaceAll(/\{[^}]*\}/g, " ")
    .replaceAll(/"[^"]*"/g, " ")
    .replaceAll(/\[[^\]]*\]/g, " ");
  const names = [...bare.matchAll(/(?<![\w.])[a-zA-Z_:][\w:]*(?!\w)(?!\s*\()/g)]
    .map((match) => match[0])
    .filter((name) => !KEYWORDS.has(name.toLowerCase()));
  const labels = new Set(names.flatMap((name) => [...(series.get(name) ?? [])]));
  for (const name of new Set(names)) report.expect(series.has(name), file, `no metric ${name}`);
  for (const label of used)
    report.expect(label === "" || labels.has(label), file, `no metric here has the label ${label}`);
}

/** Collects every expression of the alerts and dashboards, with its file and place. */
export function collectExpressions(alerts, dashboards) {
  const found = [];
  for (const [file, documents] of alerts)
    for (const rule of documents
      .flatMap((document) => document.groups ?? [])
      .flatMap((g) => g.rules))
      found.push({ file: `${file} ${rule.alert ?? rule.record}`, expression: String(rule.expr) });
  for (const [file, dashboard] of dashboards)
    for (const panel of dashboard.panels ?? [])
      for (const target of panel.targets ?? [])
        found.push({ file: `${file} "${panel.title}"`, expression: String(target.expr) });
  return found;
}

export function readSourceWords(root) {
  return listFiles(root, "src", [".ts"])
    .map((path) => readText(root, path))
    .join("\n");
}

/** Lets promtool read the rules, the scrape configuration and, as recording rules, the dashboards' expressions. */
export function checkWithPromtool({ root, expressions, report }) {
  const run = (...args) => spawnSync("promtool", args, { cwd: root, encoding: "utf8" });
  if (run("--version").error !== undefined)
    return report.note(
      "promtool is not installed: PromQL syntax was not checked (apt-get install prometheus)",
    );
  const dir = mkdtempSync(join(tmpdir(), "relay-promql-"));
  try {
    const file = join(dir, "dashboards.yml");
    const rules = expressions.map(({ expression }, index) => ({
      record: `panel:${index}`,
      expr: fillVariables(expression),
    }));
    writeFileSync(file, stringify({ groups: [{ name: "panels", rules }] }));
    for (const args of [
      ["check", "config", "deploy/prometheus/prometheus.yml"],
      ["check", "rules", "deploy/prometheus/alerts.yml"],
      ["check", "rules", file],
    ]) {
      const { status, stderr } = run(...args);
      report.expect(status === 0, `promtool ${args.join(" ")}`, stderr.trim());
    }
    report.note(`promtool read the rules and ${rules.length} expressions`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
