// Compiles src to dist when dist is older; copies what is not TypeScript (SQL files).
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiler = join(root, "node_modules/typescript/bin/tsc");
const stamp = join(root, "dist/.tsbuildinfo");

function newest(dir) {
  return readdirSync(dir, { recursive: true }).reduce(
    (latest, name) => Math.max(latest, statSync(join(dir, name)).mtimeMs),
    statSync(dir).mtimeMs,
  );
}

const stale =
  !existsSync(stamp) ||
  Math.max(newest(join(root, "src")), statSync(join(root, "package.json")).mtimeMs) >
    statSync(stamp).mtimeMs;
if (!stale && !process.argv.includes("--force")) {
  // Up to date.
} else if (existsSync(compiler)) {
  rmSync(join(root, "dist"), { recursive: true, force: true });
  execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.build.json")], {
    stdio: "inherit",
  });
  cpSync(join(root, "src"), join(root, "dist"), {
    recursive: true,
    filter: (path) => statSync(path).isDirectory() || /\.(sql|html|json)$/.test(path),
  });
} else if (!existsSync(stamp)) {
  console.error(
    "dist is missing and TypeScript is not installed: run npm ci (with development dependencies) and npm run build",
  );
  process.exitCode = 1;
}
