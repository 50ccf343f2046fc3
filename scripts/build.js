// Compiles src to dist when dist is older. Builds elsewhere and swaps the result in whole, so that a program that starts
// meanwhile finds one version or the other.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiler = join(root, "node_modules/typescript/bin/tsc");
const dist = join(root, "dist");
const stamp = join(dist, ".built");

/** Returns 0 for a missing file: what npm packs lacks some. */
function modifiedMs(name) {
  return statSync(join(root, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function newest(dir) {
  return readdirSync(dir, { recursive: true }).reduce(
    (latest, name) => Math.max(latest, statSync(join(dir, name)).mtimeMs),
    statSync(dir).mtimeMs,
  );
}

const SETTINGS = ["package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json"];
const sources = () => Math.max(newest(join(root, "src")), ...SETTINGS.map(modifiedMs));
const isStale = !existsSync(stamp) || sources() > statSync(stamp).mtimeMs;
if (!isStale && !process.argv.includes("--force")) {
  // Up to date.
} else if (existsSync(compiler)) {
  const startedAt = new Date();
  const next = join(root, `.cache/dist-${process.pid}`);
  const project = join(root, "tsconfig.build.json");
  try {
    execFileSync(process.execPath, [compiler, "-p", project, "--outDir", next], {
      stdio: "inherit",
    });
  } catch (error) {
    rmSync(next, { recursive: true, force: true });
    throw error;
  }
  // Dated to the start of the build: a source that changed meanwhile makes it stale again.
  writeFileSync(join(next, ".built"), "");
  utimesSync(join(next, ".built"), startedAt, startedAt);
  const former = join(root, `.cache/former-${process.pid}`);
  if (existsSync(dist)) renameSync(dist, former);
  renameSync(next, dist);
  rmSync(former, { recursive: true, force: true });
} else if (!existsSync(stamp)) {
  console.error(
    "dist is missing and TypeScript is not installed: run npm ci (with development dependencies) and npm run build",
  );
  process.exitCode = 1;
}
