// Checks what readers of Grafana's dashboards and the alerts' texts rely on.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { listFiles, readText } from "./files.js";

/** @returns path → dashboard */
export function checkDashboards({ root, yamlFiles, report }) {
  const dashboards = new Map();
  const [sources] = yamlFiles.get("deploy/grafana/provisioning/datasources/prometheus.yaml") ?? [];
  const uids = (sources?.datasources ?? []).map(({ uid }) => uid);
  const paths = listFiles(root, "deploy/grafana/dashboards", [".json"]);
  report.expect(paths.length > 0, "deploy/grafana/dashboards", "holds no dashboard");
  for (const path of paths) {
    let dashboard;
    try {
      dashboard = JSON.parse(readText(root, path));
    } catch (error) {
      report.fail(path, error.message);
      continue;
    }
    dashboards.set(path, dashboard);
    report.expect(
      dashboard.uid && dashboard.title && dashboard.schemaVersion,
      path,
      "needs uid, title and schemaVersion",
    );
    checkPanels({ path, panels: dashboard.panels ?? [], uids, report });
  }
  return dashboards;
}

function checkPanels({ path, panels, uids, report }) {
  const ids = new Set();
  const cells = new Map();
  for (const { id, title, description, type, gridPos, targets = [], datasource } of panels) {
    const file = `${path} "${title}"`;
    report.expect(!ids.has(id), file, `the panel id ${id} is taken`);
    ids.add(id);
    report.expect(
      gridPos && gridPos.x >= 0 && gridPos.x + gridPos.w <= 24,
      file,
      "does not fit the 24 columns",
    );
    for (let x = gridPos?.x; x < gridPos?.x + gridPos?.w; x += 1)
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        report.expect(
          !cells.has(`${x},${y}`) || cells.get(`${x},${y}`) === id,
          file,
          "lies over another panel",
        );
        cells.set(`${x},${y}`, id);
      }
    if (type === "row" || type === "text") continue;
    report.expect(description, file, "needs a description: what is normal, what is not");
    report.expect(
      uids.includes(datasource?.uid),
      file,
      `no data source ${datasource?.uid} is provisioned`,
    );
    report.expect(
      targets.length > 0 && targets.every(({ expr }) => expr),
      file,
      "needs targets with expressions",
    );
    report.expect(
      new Set(targets.map(({ refId }) => refId)).size === targets.length,
      file,
      "needs a refId of its own per target",
    );
  }
}

/** Checks that every alert says how bad it is and what to do, and has its line in deploy/README.md. */
export function checkAlerts({ root, yamlFiles, report }) {
  const path = "deploy/prometheus/alerts.yml";
  const readme = existsSync(join(root, "deploy/README.md"))
    ? readText(root, "deploy/README.md")
    : "";
  const rules = (yamlFiles.get(path) ?? []).flatMap(({ groups = [] }) =>
    groups.flatMap((group) => group.rules),
  );
  report.expect(rules.length > 0, path, "holds no rules");
  const names = new Set();
  for (const { alert, expr, labels, annotations } of rules) {
    const file = `${path} ${alert}`;
    report.expect(expr !== undefined, file, "has no expr");
    report.expect(!names.has(alert), file, "is there twice");
    names.add(alert);
    report.expect(
      ["critical", "warning"].includes(labels?.severity),
      file,
      "severity must be critical or warning",
    );
    report.expect(
      annotations?.summary && annotations?.description,
      file,
      "needs a summary, and a description that says what to do",
    );
    report.expect(
      readme.includes(`| \`${alert}\` |`),
      file,
      "has no line in the table of deploy/README.md",
    );
  }
  for (const [, name] of readme.matchAll(/\| `(Relay\w+)` \|/g))
    report.expect(names.has(name), "deploy/README.md", `explains ${name}, which is no alert`);
  return new Map([[path, yamlFiles.get(path) ?? []]]);
}
